"""Firings that callers ask for: now, or of the past. Any scheduler has them fired.

They need no epoch: the record of a time is what makes its firing happen once.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from itertools import islice

from jobmesh.errors import InvalidField, Unavailable
from jobmesh.ids import new_id
from jobmesh.schedules.definition import Definition, overlap_of, to_utc
from jobmesh.schedules.overlap import Overlap
from jobmesh.v1 import dispatch_service_pb2 as pb
from jobmesh.v1.schedule_pb2 import Firing, FiringKind, OverlapPolicy
from jobmesh.v1.schedule_service_pb2 import BackfillScheduleRequest
from jobmesh_scheduler.dispatch import LeaderCalls
from jobmesh_scheduler.schedule_store import Known

MOST_BACKFILLED = 1000
ORDERS_A_CALL = 250
TRIES = 3
_MICROSECOND = timedelta(microseconds=1)


def times_of(known: Known, request: BackfillScheduleRequest, now: datetime) -> list[datetime]:
    """The times to backfill. :raises InvalidField: too many, or not of the past."""
    start, end = to_utc(request.start_time), to_utc(request.end_time)
    if end > now:
        raise InvalidField("end_time", "must not lie in the future")
    table = Definition(known.schedule).timetable
    upcoming = table.upcoming(start - _MICROSECOND, end - _MICROSECOND)
    times = list(islice(upcoming, MOST_BACKFILLED + 1))
    if len(times) > MOST_BACKFILLED:
        raise InvalidField(
            "end_time",
            f"there are more than {MOST_BACKFILLED} times in the range; the last that fits is "
            f"{times[-2].isoformat()}",
        )
    return times


def backfill_overlap(known: Known, wanted: OverlapPolicy.ValueType) -> OverlapPolicy.ValueType:
    """One after the other, unless they may overlap, or the caller says otherwise."""
    if wanted:
        return wanted
    if overlap_of(known.schedule.overlap_policy) is Overlap.ALLOW:
        return OverlapPolicy.OVERLAP_POLICY_ALLOW
    return OverlapPolicy.OVERLAP_POLICY_BUFFER_ALL


async def fire_times(
    calls: LeaderCalls,
    known: Known,
    times: Sequence[datetime],
    kind: FiringKind.ValueType,
    overlap: OverlapPolicy.ValueType,
) -> list[Firing]:
    """Have these times fired; their firings in the same order."""
    firings: list[Firing] = []
    for start in range(0, len(times), ORDERS_A_CALL):
        part = times[start : start + ORDERS_A_CALL]
        orders = [_order(known, time, kind, overlap) for time in part]
        firings += await _fire(calls, orders)
    return firings


async def _fire(calls: LeaderCalls, orders: Sequence[pb.FiringOrder]) -> list[Firing]:
    for _ in range(TRIES):
        answers = await calls.fire(0, orders)
        if all(answer.HasField("firing") for answer in answers):
            return [answer.firing for answer in answers]
        # It was changed just now. What was fired of it is answered again.
    raise Unavailable("the schedule is being changed; try again")


def _order(
    known: Known,
    time: datetime,
    kind: FiringKind.ValueType,
    overlap: OverlapPolicy.ValueType,
) -> pb.FiringOrder:
    order = pb.FiringOrder(
        schedule_uid=str(known.uid), kind=kind, overlap_policy=overlap, job_id=new_id()
    )
    order.fire_time.FromDatetime(time)
    return order
