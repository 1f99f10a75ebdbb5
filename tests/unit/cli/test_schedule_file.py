"""The file of `jobmesh schedules apply`: what it means, and what is wrong with it, by place."""

from __future__ import annotations

import io

import click
import pytest

from jobmesh.cli.schedule_file import read_file

GOOD = """
owner: reports
schedules:
  nightly:
    type: add
    arguments: {a: 1}
    cron: ["0 2 * * *", "0 3 * * *"]
    include: [{every: 5m, anchor: "2026-01-01T00:00:00Z"}, {at: "2026-05-01T00:00:00Z"}]
    exclude: ["* * * * SUN"]
    time_zone: Europe/Berlin
    overlap: buffer_one
    catchup: all
    catchup_window: 2h
    jitter: 30
    retry: {max_attempts: 2}
    queue: slow
"""


def file_of(text: str) -> io.StringIO:
    file = io.StringIO(text)
    file.name = "s.yaml"
    return file


def test_all_that_a_schedule_has_can_be_said() -> None:
    owner, (schedule,) = read_file(file_of(GOOD))
    assert owner == schedule.owner == "reports"
    assert [spec.WhichOneof("spec") for spec in schedule.include] == [
        *("cron", "cron", "interval", "at"),
    ]
    assert schedule.exclude[0].cron == "* * * * SUN"
    assert schedule.catchup_window.seconds == 7200
    assert schedule.jitter.seconds == 30
    assert schedule.job.queue == "slow"
    assert schedule.job.retry_policy.max_attempts == 2
    assert schedule.job.payload.data == b'{"a":1}'


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("owner: [", "s.yaml"),
        ("- a", "at the top"),
        ("owner: a\nschedule: {}", "at the top"),
        ("schedules: {}", "owner is required"),
        ("owner: a\nschedules: [x]", "a map"),
        ("owner: a\nschedules: {x: {cron: y}}", "schedules.x: has settings"),
        ("owner: a\nschedules: {x: {type: t, corn: y}}", "no setting 'corn'"),
        ("owner: a\nschedules: {x: {type: t, owner: y}}", "that of the file"),
        ("owner: a\nschedules: {x: {type: t, overlap: never}}", "schedules.x"),
        ("owner: a\nschedules: {x: {type: t, every: soon}}", "schedules.x"),
        ("owner: a\nschedules: {x: {type: t, include: [{of: 1}]}}", "one of cron, every and at"),
        ("owner: a\nschedules: {x: {type: t, retry: {tries: 1}}}", "schedules.x.retry"),
        ("owner: !!python/object/apply:os.getcwd []", "s.yaml"),
    ],
)
def test_what_is_wrong_is_told_by_place(text: str, word: str) -> None:
    with pytest.raises(click.UsageError) as caught:
        read_file(file_of(text))
    assert word in str(caught.value)
