"""Schedules as callers send them: what is wrong with them, by field and position."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Any

from google.protobuf.timestamp_pb2 import Timestamp

from jobmesh.schedules.cron import BadCron, Cron
from jobmesh.schedules.zones import UnknownZone, zone
from jobmesh.v1.job_pb2 import JobSpec
from jobmesh.v1.schedule_pb2 import CatchupPolicy, OverlapPolicy, Schedule, ScheduleSpec
from jobmesh.validation import (
    Span,
    Violations,
    check_duration,
    check_id,
    check_job_spec,
    check_note,
    check_timestamp,
)
from jobmesh.validation.enums import check_enum
from jobmesh.validation.text import MAX_LABELS
from jobmesh.validation.times import DAY, NANOS

MAX_SPECS = 50
MAX_FAILURES = 100
FIRE_TIME_LABEL = "jobmesh.fire_time"
EVERY = Span(NANOS, 366 * DAY, "1 s to 366 days")
WINDOW = Span(60 * NANOS, 366 * DAY, "1 min to 366 days")
JITTER = Span(0, DAY, "0 to 1 day")

SETTABLE = (
    "include",
    "exclude",
    "time_zone",
    "job",
    "overlap_policy",
    "catchup_policy",
    "catchup_window",
    "jitter",
    "start_time",
    "end_time",
    "pause_after_failures",
    "description",
    "owner",
)
OUTPUT_ONLY = ("pause_note", "next_fire_time", "create_time", "update_time")


def check_schedule(schedule: Schedule, path: str, found: Violations) -> None:
    """All of a schedule, but for the payload of its job."""
    check_id(schedule.schedule_id, f"{path}.schedule_id", found)
    check_settings(schedule, SETTABLE, path, found)
    check_job(schedule.job, f"{path}.job", found)


def check_times(schedule: Schedule, path: str, found: Violations) -> None:
    """What the times depend on, and nothing else."""
    names = ("include", "exclude", "time_zone", "jitter", "start_time", "end_time")
    check_settings(schedule, names, path, found)


def check_settings(
    schedule: Schedule, names: Collection[str], path: str, found: Violations
) -> None:
    """Those settings, each by itself and as far as they depend on one another."""
    for field, value in schedule.ListFields():
        if field.name in names and (check := _CHECKS.get(field.name)) is not None:
            check(value, f"{path}.{field.name}", found)
    if "include" in names and not schedule.include:
        found.add(f"{path}.include", "is required: at least one of cron, interval and at")
    if {"start_time", "end_time"} <= set(names):
        _check_order(schedule, path, found)


def update_paths(
    schedule: Schedule, paths: Sequence[str], path: str, found: Violations
) -> list[str]:
    """The settings that an update changes: those of the mask, or all that are set."""
    if list(paths) == ["*"]:
        return list(SETTABLE)
    if not paths:
        return [field.name for field, _ in schedule.ListFields() if field.name in SETTABLE]
    for index, name in enumerate(paths):
        if problem := _path_problem(name):
            found.add(f"{path}.paths[{index}]", f"{name[:50]!a} {problem}")
    return [name for name in dict.fromkeys(paths) if name in SETTABLE]


def check_job(job: JobSpec, path: str, found: Violations) -> None:
    """What is submitted again and again has no time of its own."""
    check_job_spec(job, path, found)
    for name in ("run_at", "delay", "deadline"):
        if job.HasField(name):
            found.add(f"{path}.{name}", "has no place in a schedule, which says when")
    if FIRE_TIME_LABEL in job.labels:
        found.add(f"{path}.labels", f"{FIRE_TIME_LABEL} is set by each firing")
    elif len(job.labels) == MAX_LABELS:
        found.add(f"{path}.labels", f"at most {MAX_LABELS - 1}: each firing adds one")


def _path_problem(name: str) -> str:
    if name in SETTABLE:
        return ""
    if name == "paused":
        return "is changed by PauseSchedule and ResumeSchedule"
    if name in OUTPUT_ONLY:
        return "is output only"
    if name in ("schedule_id", "etag"):
        return "cannot be changed"
    head, dot, _ = name.partition(".")
    if dot and head in SETTABLE:
        return f"is part of {head}, which is changed as a whole: name {head}"
    return f"is no setting of a schedule; known are {', '.join(SETTABLE)}"


def _check_order(schedule: Schedule, path: str, found: Violations) -> None:
    if not (schedule.HasField("start_time") and schedule.HasField("end_time")):
        return
    if _nanos(schedule.end_time) <= _nanos(schedule.start_time):
        found.add(f"{path}.end_time", "must be later than start_time")


def _nanos(time: Timestamp) -> int:
    return time.seconds * NANOS + time.nanos


def _specs(specs: Sequence[ScheduleSpec], path: str, found: Violations) -> None:
    if len(specs) > MAX_SPECS:
        found.add(path, f"has {len(specs)} entries, at most {MAX_SPECS} are allowed")
        return
    for index, spec in enumerate(specs):
        check_spec(spec, f"{path}[{index}]", found)


def check_spec(spec: ScheduleSpec, path: str, found: Violations) -> None:
    """One of cron, interval and at."""
    match spec.WhichOneof("spec"):
        case "cron":
            _cron(spec.cron, f"{path}.cron", found)
        case "interval":
            interval = f"{path}.interval"
            check_duration(spec.interval.every, f"{interval}.every", found, EVERY)
            check_timestamp(spec.interval.anchor, f"{interval}.anchor", found)
        case "at":
            check_timestamp(spec.at, f"{path}.at", found)
        case _:
            found.add(path, "must have one of cron, interval and at")


def _cron(text: str, path: str, found: Violations) -> None:
    try:
        Cron(text)
    except BadCron as error:
        found.add(path, str(error))


def _zone(name: str, path: str, found: Violations) -> None:
    try:
        zone(name)
    except UnknownZone:
        found.add(path, f"{name[:50]!a} is no IANA time zone, such as Europe/Berlin or UTC")


def _failures(count: int, path: str, found: Violations) -> None:
    if not 0 <= count <= MAX_FAILURES:
        found.add(path, f"is {count}; it must be 1 to {MAX_FAILURES}, or 0 for never")


def _overlap(value: int, path: str, found: Violations) -> None:
    check_enum(value, path, found, OverlapPolicy.DESCRIPTOR)


def _catchup(value: int, path: str, found: Violations) -> None:
    check_enum(value, path, found, CatchupPolicy.DESCRIPTOR)


def _window(value: Any, path: str, found: Violations) -> None:
    check_duration(value, path, found, WINDOW)


def _jitter(value: Any, path: str, found: Violations) -> None:
    check_duration(value, path, found, JITTER)


_CHECKS: dict[str, Callable[[Any, str, Violations], None]] = {
    "include": _specs,
    "exclude": _specs,
    "time_zone": _zone,
    "overlap_policy": _overlap,
    "catchup_policy": _catchup,
    "catchup_window": _window,
    "jitter": _jitter,
    "start_time": check_timestamp,
    "end_time": check_timestamp,
    "pause_after_failures": _failures,
    "description": check_note,
    "owner": check_id,
}
