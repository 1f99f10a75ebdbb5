"""Making schedules what somebody declared: what differs is changed, and the rest left alone."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from typing import TYPE_CHECKING, NamedTuple

from jobmesh.v1.job_pb2 import RestartPolicy
from jobmesh.v1.schedule_pb2 import Schedule

if TYPE_CHECKING:
    from jobmesh.client.schedules import Schedules

# What nobody declares. Whether it is paused is for people to say, once it is there.
_NOT_DECLARED = ("paused", "etag", "pause_note", "next_fire_time", "create_time", "update_time")


class Step(NamedTuple):
    """What was done with a schedule: created, updated, unchanged or removed."""

    schedule_id: str
    action: str


class OwnedByAnother(Exception):
    """A schedule of that id belongs to somebody else, or to nobody."""

    def __init__(self, schedule_id: str, owner: str) -> None:
        self.schedule_id = schedule_id
        whose = f"belongs to {owner}" if owner else "was not made by an app or a file"
        super().__init__(f"schedule {schedule_id} {whose}: delete it first, or choose another id")


async def apply_schedules(
    schedules: Schedules,
    wanted: Sequence[Schedule],
    *,
    owner: str,
    prune: bool = False,
    dry_run: bool = False,
) -> AsyncGenerator[Step, None]:
    """Create and update, and with ``prune`` remove those of the owner that are not wanted.

    Raises:
        OwnedByAnother: before anything of that schedule is changed.
        JobmeshError: as all calls do.
    """
    there = {info.schedule_id: info.proto async for info in schedules.list()}
    for schedule in wanted:
        found = there.get(schedule.schedule_id)
        if found is not None and found.owner != owner:
            raise OwnedByAnother(schedule.schedule_id, found.owner)
        yield Step(schedule.schedule_id, await _put(schedules, schedule, found, dry_run))
    ids = {schedule.schedule_id for schedule in wanted}
    for schedule_id, found in there.items():
        if prune and found.owner == owner and schedule_id not in ids:
            if not dry_run:
                await schedules.delete(schedule_id)
            yield Step(schedule_id, "removed")


async def _put(
    schedules: Schedules, schedule: Schedule, found: Schedule | None, dry_run: bool
) -> str:
    if found is None:
        if not dry_run:
            await schedules.create_message(schedule)
        return "created"
    if _declared(schedule) == _declared(found):
        return "unchanged"
    if not dry_run:
        await schedules.update_message(schedule, ["*"])
    return "updated"


def _declared(schedule: Schedule) -> bytes:
    """What counts of a schedule, with the defaults that a mesh fills in."""
    kept = Schedule()
    kept.CopyFrom(schedule)
    for name in _NOT_DECLARED:
        kept.ClearField(name)  # type: ignore[arg-type]
    job = kept.job
    job.queue = job.queue or "default"
    job.priority = job.priority if job.HasField("priority") else 4
    job.restart = job.restart or RestartPolicy.RESTART_POLICY_ON_FAILURE
    payload = _canonical(job.payload)
    job.ClearField("payload")
    return payload + b"\0" + kept.SerializeToString(deterministic=True)


def _canonical(payload: object) -> bytes:
    import json

    from jobmesh.client.values import decode_payload

    value = decode_payload(payload)  # type: ignore[arg-type]
    if isinstance(value, bytes):
        return value
    return json.dumps(value, sort_keys=True, separators=(",", ":")).encode()
