"""Bad schedules get an error that names the field, and the position in it."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from jobmesh.errors import InvalidField
from jobmesh.schedules.check import SETTABLE, check_schedule, update_paths
from jobmesh.v1.schedule_pb2 import Schedule
from jobmesh.validation import Violations


def good() -> Schedule:
    schedule = Schedule(schedule_id="nightly", time_zone="Europe/Berlin")
    schedule.include.add(cron="0 2 * * *")
    schedule.job.type = "report"
    return schedule


def violations(schedule: Schedule) -> list[tuple[str, str]]:
    found = Violations()
    check_schedule(schedule, "schedule", found)
    error = found.error()
    if error is None:
        return []
    assert isinstance(error, InvalidField)
    return error.violations


def test_a_good_one_passes() -> None:
    assert violations(good()) == []


def _bad_interval(s: Schedule) -> None:
    s.include.add().interval.every.nanos = 5


def _bad_window(s: Schedule) -> None:
    s.catchup_window.seconds = 1


def _bad_order(s: Schedule) -> None:
    s.start_time.seconds, s.end_time.seconds = 10, 10


def _bad_jitter(s: Schedule) -> None:
    s.jitter.seconds = 100_000


def _timed_job(s: Schedule) -> None:
    s.job.delay.seconds = 5


CASES: list[tuple[Callable[[Schedule], object], str, str]] = [
    (lambda s: s.include.add(cron="0 25 * * *"), "schedule.include[1].cron", "at character 3"),
    (lambda s: s.exclude.add(cron="0 1,77 * * *"), "schedule.exclude[0].cron", "at character 5"),
    (lambda s: s.exclude.add(), "schedule.exclude[0]", "one of cron, interval and at"),
    (_bad_interval, "schedule.include[1].interval.every", "1 s to 366 days"),
    (_bad_window, "schedule.catchup_window", "1 min to 366 days"),
    (_bad_order, "schedule.end_time", "later than start_time"),
    (_bad_jitter, "schedule.jitter", "0 to 1 day"),
    (_timed_job, "schedule.job.delay", "has no place"),
    (lambda s: s.ClearField("include"), "schedule.include", "is required"),
    (lambda s: setattr(s, "time_zone", "CEST"), "schedule.time_zone", "no IANA time zone"),
    (lambda s: setattr(s, "overlap_policy", 99), "schedule.overlap_policy", "99"),
    (lambda s: setattr(s, "catchup_policy", 99), "schedule.catchup_policy", "99"),
    (lambda s: setattr(s, "pause_after_failures", -1), "schedule.pause_after_failures", "-1"),
    (lambda s: setattr(s, "schedule_id", ""), "schedule.schedule_id", "empty"),
    (lambda s: s.job.ClearField("type"), "schedule.job.type", "required"),
    (lambda s: s.job.labels.update({"jobmesh.fire_time": "x"}), "schedule.job.labels", "is set by"),
    (lambda s: s.include.extend(list(s.include) * 60), "schedule.include", "at most 50"),
]


@pytest.mark.parametrize(("spoil", "field", "word"), CASES)
def test_a_mistake_is_told_by_field(
    spoil: Callable[[Schedule], object], field: str, word: str
) -> None:
    schedule = good()
    spoil(schedule)
    assert [name for name, _ in violations(schedule)] == [field]
    assert word in violations(schedule)[0][1]


def test_an_update_means_what_the_mask_says_or_what_is_set() -> None:
    found = Violations()
    assert update_paths(good(), [], "update_mask", found) == ["include", "time_zone", "job"]
    assert update_paths(good(), ["*"], "update_mask", found) == list(SETTABLE)
    assert update_paths(good(), ["jitter", "jitter"], "update_mask", found) == ["jitter"]
    assert not found


@pytest.mark.parametrize("path", ["paused", "etag", "schedule_id", "job.type", "nonsense"])
def test_a_mask_that_names_something_else_is_refused(path: str) -> None:
    found = Violations()
    update_paths(good(), [path], "update_mask", found)
    error = found.error()
    assert isinstance(error, InvalidField)
    assert error.field == "update_mask.paths[0]"
