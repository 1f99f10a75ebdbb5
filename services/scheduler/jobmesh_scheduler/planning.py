"""When a schedule will fire, in the words of the contract."""

from __future__ import annotations

from datetime import datetime
from itertools import islice

from jobmesh.schedules.definition import Definition, to_utc
from jobmesh.v1.schedule_pb2 import Schedule
from jobmesh.v1.schedule_service_pb2 import (
    PlannedFiring,
    PreviewScheduleRequest,
    PreviewScheduleResponse,
)

DEFAULT_COUNT = 10


def planned(
    schedule: Schedule, request: PreviewScheduleRequest, now: datetime
) -> PreviewScheduleResponse:
    """The next times of the schedule."""
    definition = Definition(schedule)
    after = to_utc(request.after) if request.HasField("after") else now
    times = islice(definition.timetable.upcoming(after), request.count or DEFAULT_COUNT)
    return PreviewScheduleResponse(firings=[_planned(definition, time) for time in times])


def _planned(definition: Definition, time: datetime) -> PlannedFiring:
    firing = PlannedFiring(local_time=time.astimezone(definition.zone).isoformat())
    firing.fire_time.FromDatetime(time)
    firing.due_time.FromDatetime(definition.due(time))
    return firing
