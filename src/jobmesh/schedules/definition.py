"""A schedule's message as what the decisions go by."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

from google.protobuf.timestamp_pb2 import Timestamp

from jobmesh.schedules.catchup import DEFAULT_WINDOW, Catchup
from jobmesh.schedules.cron import Cron
from jobmesh.schedules.jitter import due_time
from jobmesh.schedules.overlap import Overlap
from jobmesh.schedules.timetable import EPOCH, Interval, Once, Source, Timetable
from jobmesh.schedules.zones import ZonedCron, zone
from jobmesh.v1.schedule_pb2 import CatchupPolicy, OverlapPolicy, Schedule, ScheduleSpec

DEFAULT_ZONE = "UTC"
_CATCHUP = {
    CatchupPolicy.CATCHUP_POLICY_UNSPECIFIED: Catchup.ONE,
    CatchupPolicy.CATCHUP_POLICY_NONE: Catchup.NONE,
    CatchupPolicy.CATCHUP_POLICY_ONE: Catchup.ONE,
    CatchupPolicy.CATCHUP_POLICY_ALL: Catchup.ALL,
}
_OVERLAP = {
    OverlapPolicy.OVERLAP_POLICY_UNSPECIFIED: Overlap.SKIP,
    OverlapPolicy.OVERLAP_POLICY_ALLOW: Overlap.ALLOW,
    OverlapPolicy.OVERLAP_POLICY_SKIP: Overlap.SKIP,
    OverlapPolicy.OVERLAP_POLICY_BUFFER_ONE: Overlap.BUFFER_ONE,
    OverlapPolicy.OVERLAP_POLICY_BUFFER_ALL: Overlap.BUFFER_ALL,
    OverlapPolicy.OVERLAP_POLICY_CANCEL_RUNNING: Overlap.CANCEL_RUNNING,
    OverlapPolicy.OVERLAP_POLICY_TERMINATE_RUNNING: Overlap.TERMINATE_RUNNING,
}


class Definition:
    """A schedule that was checked: its timetable, zone and policies."""

    def __init__(self, schedule: Schedule) -> None:
        self.schedule_id = schedule.schedule_id
        self.zone = zone(schedule.time_zone or DEFAULT_ZONE)
        self.timetable = _timetable(schedule, self.zone)
        self.catchup = _CATCHUP[schedule.catchup_policy]
        self.window = (
            schedule.catchup_window.ToTimedelta()
            if schedule.HasField("catchup_window")
            else DEFAULT_WINDOW
        )
        self.jitter = schedule.jitter.ToTimedelta()

    def due(self, fire_time: datetime) -> datetime:
        """When a firing is due, with jitter."""
        if not self.jitter:
            return fire_time
        return due_time(
            self.schedule_id, fire_time, self.jitter, self.timetable.next_after(fire_time)
        )

    def undue(self, now: datetime) -> datetime:
        """Until when times are due by now: ``now``, or before one that its jitter still keeps."""
        if not self.jitter:
            return now
        held = self.timetable.latest(now - self.jitter - timedelta(seconds=1), now)
        if held is None or self.due(held) <= now:
            return now
        return held - timedelta(microseconds=1)


def overlap_of(policy: OverlapPolicy.ValueType) -> Overlap:
    """The policy that the number stands for."""
    return _OVERLAP[policy]


def to_utc(time: Timestamp) -> datetime:
    """An aware time in UTC."""
    return time.ToDatetime(tzinfo=UTC)


def _timetable(schedule: Schedule, zone: ZoneInfo) -> Timetable:
    return Timetable(
        include=[_source(spec, zone) for spec in schedule.include],
        exclude=[_source(spec, zone) for spec in schedule.exclude],
        start=to_utc(schedule.start_time) if schedule.HasField("start_time") else None,
        end=to_utc(schedule.end_time) if schedule.HasField("end_time") else None,
    )


def _source(spec: ScheduleSpec, zone: ZoneInfo) -> Source:
    match spec.WhichOneof("spec"):
        case "cron":
            return ZonedCron(Cron(spec.cron), zone)
        case "interval":
            has_anchor = spec.interval.HasField("anchor")
            anchor = to_utc(spec.interval.anchor) if has_anchor else EPOCH
            return Interval(spec.interval.every.ToTimedelta(), anchor)
        case _:
            return Once(to_utc(spec.at))
