"""Schedules and firings between the contract and their rows."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, NamedTuple

from jobmesh.schedules.definition import Definition
from jobmesh.v1.job_pb2 import JobSpec
from jobmesh.v1.schedule_pb2 import (
    Firing,
    FiringKind,
    FiringOutcome,
    OverlapPolicy,
    Schedule,
)

if TYPE_CHECKING:
    from asyncpg import Record

# What has columns of its own, or is none of the caller's.
_ELSEWHERE = (
    *("job", "owner", "paused", "etag", "pause_note"),
    *("next_fire_time", "create_time", "update_time"),
)


class Wake(NamedTuple):
    """Where a schedule stands: what is dealt with, when it fires next, when to look."""

    cursor: datetime
    next_fire_time: datetime | None
    wake_time: datetime | None


def wake(definition: Definition, cursor: datetime, now: datetime) -> Wake:
    """When the leader has to look next, if it has dealt with all up to ``cursor``."""
    found = definition.timetable.search(cursor)
    if found.time is not None:
        return Wake(cursor, found.time, definition.due(found.time))
    if found.searched_to is not None:  # all excluded so far: go on looking from there, then
        return Wake(found.searched_to, None, max(found.searched_to, now))
    return Wake(cursor, None, None)


def stored_definition(schedule: Schedule) -> bytes:
    """What is kept in `definition`: the same for the same content."""
    kept = Schedule()
    kept.CopyFrom(schedule)
    for name in _ELSEWHERE:
        kept.ClearField(name)  # type: ignore[arg-type]
    return kept.SerializeToString(deterministic=True)


def stored_job(schedule: Schedule) -> bytes:
    """What is kept in `job`."""
    return schedule.job.SerializeToString(deterministic=True)


def stored_overlap(schedule: Schedule) -> str:
    """The policy's name in the table; SKIP by default."""
    name = OverlapPolicy.Name(schedule.overlap_policy).removeprefix("OVERLAP_POLICY_")
    return "SKIP" if name == "UNSPECIFIED" else name


def schedule_message(row: Record) -> Schedule:
    """A row as callers see it."""
    schedule = Schedule.FromString(row["definition"])
    schedule.schedule_id = row["schedule_id"]
    schedule.job.CopyFrom(JobSpec.FromString(row["job"]))
    schedule.owner = row["owner"]
    schedule.paused = row["paused"]
    schedule.pause_note = row["pause_note"]
    schedule.etag = etag(row)
    schedule.create_time.FromDatetime(row["create_time"])
    schedule.update_time.FromDatetime(row["update_time"])
    if row["next_fire_time"] is not None:
        schedule.next_fire_time.FromDatetime(row["next_fire_time"])
    return schedule


def etag(row: Record) -> str:
    """Changes with each change, and is another one for another schedule of the same name."""
    return f"{row['uid'].hex[-8:]}-{row['revision']}"


def firing_message(row: Record, schedule_id: str) -> Firing:
    """A row of `firings` as callers see it."""
    firing = Firing(
        schedule_id=schedule_id,
        kind=FiringKind.Value(f"FIRING_KIND_{row['kind']}"),
        outcome=FiringOutcome.Value(f"FIRING_OUTCOME_{row['outcome']}"),
        job_id=str(row["job_id"]) if row["job_id"] else "",
        detail=row["detail"],
        count=row["count"],
    )
    firing.fire_time.FromDatetime(row["fire_time"])
    firing.record_time.FromDatetime(row["record_time"])
    if row["last_fire_time"] is not None:
        firing.last_fire_time.FromDatetime(row["last_fire_time"])
    return firing
