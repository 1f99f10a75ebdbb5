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


@pytest.mark.parametrize(
    ("setting", "told"),
    [
        ("queue: 5", "queue: must be text in quotes, not 5"),
        ("parent_job_id: 5", "parent_job_id: must be text in quotes, not 5"),
        ("priority: true", "priority: must be 0 to 9, not True"),
        ("priority: high", "priority: must be 0 to 9, not 'high'"),
        ("timeout: 1.0e+20", "timeout: 1e+20 is longer than 10,000 years"),
        ("retry: 3", "retry: must be settings, as in {max_attempts: 3}, not 3"),
        (
            "retry: {non_retryable_error_types: 5}",
            "retry.non_retryable_error_types: must be a list of names, not 5",
        ),
        ("retry: {max_attempts: many}", "retry: Retry.max_attempts must be a number"),
        ("labels: [a]", "labels: must be texts by name, as in {team: a}, not ['a']"),
        ("labels: {rows: 5}", "labels.rows: must be text in quotes, not 5"),
        ("labels: {5: rows}", "labels: must be texts by name, as in {team: a}, not {5: 'rows'}"),
        ("arguments: [1]", "arguments: must be values by name, as in {rows: 500}, not [1]"),
        ("arguments: 0", "arguments: must be values by name, as in {rows: 500}, not 0"),
        ("catchup: no", "catchup: must be none, one or all, not False"),
        ("catchup: off", "catchup: must be none, one or all, not False"),
        ("catchup: unspecified", "catchup: must be none, one or all, not 'unspecified'"),
        ("overlap: 1", "overlap: must be allow, skip, "),
        ("overlap: never", "cancel_running or terminate_running, not 'never'"),
        ("start_time: '2026-11-30T10:00'", "start_time: 2026-11-30T10:00:00 has no time zone"),
        ("end_time: 2026-11-30T10:00:00", "end_time: 2026-11-30T10:00:00 has no time zone"),
        ("end_time: 2026-11-30", "end_time: datetime.date(2026, 11, 30) is no time; write it as"),
        ("end_time: noon", "end_time: 'noon' is no time; write it as in 2026-11-30T10:00Z"),
        ("end_time: '0001-01-01T00:00+14:00'", "end_time: 0001-01-01T00:00:00+14:00 is before"),
        ("time_zone: 5", "time_zone: must be text in quotes, not 5"),
        ("description: [x]", "description: must be text in quotes, not ['x']"),
        ("paused: 1", "paused: must be true or false, not 1"),
        ("pause_after_failures: many", "pause_after_failures: must be a whole number, not 'many'"),
        ("pause_after_failures: 9999999999", "pause_after_failures: Value out of range"),
        ("jitter: soon", "jitter: cannot read 'soon'"),
        ("jitter: 1.0e+20", "jitter: 1e+20 is longer than 10,000 years"),
        ("every: {}", "every: {} is not a length of time"),
        ("cron: 5", "cron: must be a list, as in ['0 2 * * *'], not 5"),
        ("cron: [5]", "cron[0]: must be text in quotes, not 5"),
        ("include: '0 2 * * *'", "include: must be a list, as in ['0 2 * * *'], not '0 2 * * *'"),
        ("include: {every: 5m}", "include: must be a list, as in ['0 2 * * *'], not {'every'"),
        ("include: [5]", "include[0]: is one of cron, every and at, not 5"),
        ("exclude: [x, {at: '2026-05-01'}]", "exclude[1].at: 2026-05-01T00:00:00 has no time zone"),
        ("exclude: [{cron: 5}]", "exclude[0].cron: must be text in quotes, not 5"),
        ("include: [{every: x}]", "include[0].every: cannot read 'x'"),
        ("include: [{every: 5, anchor: x}]", "include[0].anchor: 'x' is no time"),
        ("include: [{of: 1, 2: 3}]", "include[0]: is one of cron, every and at, not of, 2"),
        ("include: [{every: 5, at: x, 2: 3}]", "include[0]: has no every, 2 beside at"),
        ("task: x", "a schedule has no setting 'task'"),
        ("schedule_id: x", "a schedule has no setting 'schedule_id'"),
    ],
)
def test_a_setting_that_is_wrong_is_told_by_schedule_and_name(setting: str, told: str) -> None:
    with pytest.raises(click.UsageError) as caught:
        read_file(file_of(f"owner: a\nschedules:\n  x:\n    type: t\n    {setting}\n"))
    assert str(caught.value).startswith("s.yaml: schedules.x")
    assert told in str(caught.value)


def test_a_setting_without_a_value_is_as_if_it_was_left_out() -> None:
    names = ("arguments", "cron", "include", "exclude", "queue", "labels", "overlap", "retry")
    empty = "".join(f"    {name}:\n" for name in names)
    _, (schedule,) = read_file(file_of(f"owner: a\nschedules:\n  x:\n    type: t\n{empty}"))
    _, (bare,) = read_file(file_of("owner: a\nschedules: {x: {type: t}}"))
    assert schedule == bare


def test_a_setting_of_retries_without_a_value_is_as_if_it_was_left_out() -> None:
    retry = "{max_attempts: 2, jitter: , non_retryable_error_types: }"
    _, (schedule,) = read_file(file_of(f"owner: a\nschedules: {{x: {{type: t, retry: {retry}}}}}"))
    assert schedule.job.retry_policy.max_attempts == 2
    assert not schedule.job.retry_policy.HasField("jitter")
