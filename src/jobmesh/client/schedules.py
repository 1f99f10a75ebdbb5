"""Schedules: made, changed, paused, fired now or for the past, and what became of their firings."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from jobmesh import durations
from jobmesh.client.calls import Calls
from jobmesh.client.schedule_message import schedule_message
from jobmesh.client.states import short_name
from jobmesh.client.times import to_datetime, to_timestamp
from jobmesh.v1 import schedule_pb2 as messages
from jobmesh.v1 import schedule_service_pb2 as pb

if TYPE_CHECKING:
    from jobmesh.task import Task

PAGE = 1000


@dataclass(frozen=True, slots=True)
class ScheduleInfo:
    """A schedule as it stood when it was read; all of it is in ``proto``."""

    schedule_id: str
    specs: list[str]
    time_zone: str
    type: str
    paused: bool
    pause_note: str
    owner: str
    next_fire_time: datetime | None
    etag: str
    proto: messages.Schedule = field(repr=False, compare=False)


@dataclass(frozen=True, slots=True)
class FiringInfo:
    """What became of one time of a schedule; ``count`` times, if they were missed."""

    schedule_id: str
    fire_time: datetime
    kind: str
    outcome: str
    job_id: str
    detail: str
    record_time: datetime
    count: int
    proto: messages.Firing = field(repr=False, compare=False)


@dataclass(frozen=True, slots=True)
class Planned:
    """A time at which a schedule will fire: without jitter, on its clocks, and with jitter."""

    fire_time: datetime
    local_time: str
    due_time: datetime


def schedule_info(schedule: messages.Schedule) -> ScheduleInfo:
    """The message as a :class:`ScheduleInfo`."""
    has_next = schedule.HasField("next_fire_time")
    return ScheduleInfo(
        schedule_id=schedule.schedule_id,
        specs=[spec_text(spec) for spec in schedule.include],
        time_zone=schedule.time_zone or "UTC",
        type=schedule.job.type,
        paused=schedule.paused,
        pause_note=schedule.pause_note,
        owner=schedule.owner,
        next_fire_time=to_datetime(schedule.next_fire_time) if has_next else None,
        etag=schedule.etag,
        proto=schedule,
    )


def spec_text(spec: messages.ScheduleSpec) -> str:
    """A spec as one line."""
    match spec.WhichOneof("spec"):
        case "cron":
            return spec.cron
        case "interval":
            return f"every {durations.text(spec.interval.every.ToTimedelta())}"
        case _:
            return f"at {spec.at.ToJsonString()}"


def firing_info(firing: messages.Firing) -> FiringInfo:
    """The message as a :class:`FiringInfo`."""
    return FiringInfo(
        schedule_id=firing.schedule_id,
        fire_time=to_datetime(firing.fire_time),
        kind=short_name(messages.FiringKind.Name(firing.kind)),
        outcome=short_name(messages.FiringOutcome.Name(firing.outcome)),
        job_id=firing.job_id,
        detail=firing.detail,
        record_time=to_datetime(firing.record_time),
        count=firing.count,
        proto=firing,
    )


class Schedules:
    """The schedules of the namespace. Methods raise a JobmeshError as all calls do."""

    def __init__(self, calls: Calls) -> None:
        self._calls = calls

    async def create(
        self,
        schedule_id: str,
        task: Task[..., Any] | str,
        arguments: dict[str, Any] | None = None,
        **settings: Any,
    ) -> ScheduleInfo:
        """Make a schedule of a task, or of a type known by name.

        One that is there with the same content is answered.

        Args:
            settings: as of :func:`jobmesh.client.schedule_message.schedule_message`: ``cron``,
                ``every``, ``time_zone``, ``overlap``, ``catchup``, ``queue``, ``timeout``, …

        Raises:
            TypeError, ValueError: a setting is unknown or malformed.
        """
        return await self.create_message(schedule_message(schedule_id, task, arguments, **settings))

    async def create_message(self, schedule: messages.Schedule) -> ScheduleInfo:
        """Make a schedule of a message of the contract."""
        request = pb.CreateScheduleRequest(schedule=schedule)
        return schedule_info(await self._calls.unary(self._calls.schedules.CreateSchedule, request))

    async def get(self, schedule_id: str) -> ScheduleInfo:
        """One schedule."""
        request = pb.GetScheduleRequest(schedule_id=schedule_id)
        return schedule_info(await self._calls.unary(self._calls.schedules.GetSchedule, request))

    async def list(self, *, owner: str = "") -> AsyncGenerator[ScheduleInfo, None]:
        """All schedules, or those of an owner, by id."""
        request = pb.ListSchedulesRequest(page_size=PAGE, owner=owner)
        while True:
            page = await self._calls.unary(self._calls.schedules.ListSchedules, request)
            for schedule in page.schedules:
                yield schedule_info(schedule)
            if not page.next_page_token:
                return
            request.page_token = page.next_page_token

    async def update_message(
        self, schedule: messages.Schedule, paths: Sequence[str] = ()
    ) -> ScheduleInfo:
        """Change what ``paths`` name, by default all that is set; ``*`` for everything."""
        request = pb.UpdateScheduleRequest(schedule=schedule)
        request.update_mask.paths.extend(paths)
        return schedule_info(await self._calls.unary(self._calls.schedules.UpdateSchedule, request))

    async def delete(self, schedule_id: str, *, etag: str = "") -> None:
        """Remove it; its jobs go on."""
        request = pb.DeleteScheduleRequest(schedule_id=schedule_id, etag=etag)
        await self._calls.unary(self._calls.schedules.DeleteSchedule, request)

    async def pause(self, schedule_id: str, note: str = "") -> ScheduleInfo:
        """Fire nothing until it is resumed."""
        request = pb.PauseScheduleRequest(schedule_id=schedule_id, note=note)
        return schedule_info(await self._calls.unary(self._calls.schedules.PauseSchedule, request))

    async def resume(self, schedule_id: str) -> ScheduleInfo:
        """Fire again, from the next time on."""
        request = pb.ResumeScheduleRequest(schedule_id=schedule_id)
        return schedule_info(await self._calls.unary(self._calls.schedules.ResumeSchedule, request))

    async def trigger(self, schedule_id: str, *, overlap: str = "") -> FiringInfo:
        """Fire now, once, however often the call has to be repeated."""
        request = pb.TriggerScheduleRequest(
            schedule_id=schedule_id,
            overlap_policy=_overlap(overlap),
            fire_time=to_timestamp(datetime.now(UTC)),
        )
        return firing_info(await self._calls.unary(self._calls.schedules.TriggerSchedule, request))

    async def backfill(
        self, schedule_id: str, start: datetime, end: datetime, *, overlap: str = ""
    ) -> Sequence[FiringInfo]:
        """Fire the times from ``start`` until before ``end`` that made no job."""
        request = pb.BackfillScheduleRequest(
            schedule_id=schedule_id,
            start_time=to_timestamp(start),
            end_time=to_timestamp(end),
            overlap_policy=_overlap(overlap),
        )
        answer = await self._calls.unary(self._calls.schedules.BackfillSchedule, request)
        return [firing_info(firing) for firing in answer.firings]

    async def preview(
        self,
        target: str | messages.Schedule,
        *,
        count: int = 10,
        after: datetime | None = None,
    ) -> Sequence[Planned]:
        """The next times of a schedule, stored or not."""
        request = pb.PreviewScheduleRequest(count=count)
        if isinstance(target, str):
            request.schedule_id = target
        else:
            request.schedule.CopyFrom(target)
        if after is not None:
            request.after.CopyFrom(to_timestamp(after))
        answer = await self._calls.unary(self._calls.schedules.PreviewSchedule, request)
        return [
            Planned(to_datetime(f.fire_time), f.local_time, to_datetime(f.due_time))
            for f in answer.firings
        ]

    async def firings(
        self, schedule_id: str, *, limit: int | None = None
    ) -> AsyncGenerator[FiringInfo, None]:
        """Its firings, the latest first."""
        size = min(limit or PAGE, PAGE)
        request = pb.ListFiringsRequest(schedule_id=schedule_id, page_size=size)
        left = limit
        while True:
            page = await self._calls.unary(self._calls.schedules.ListFirings, request)
            for firing in page.firings:
                if left is not None and left <= 0:
                    return
                left = None if left is None else left - 1
                yield firing_info(firing)
            if not page.next_page_token or left == 0:
                return
            request.page_token = page.next_page_token


def _overlap(name: str) -> messages.OverlapPolicy.ValueType:
    if not name:
        return messages.OverlapPolicy.OVERLAP_POLICY_UNSPECIFIED
    return messages.OverlapPolicy.Value(f"OVERLAP_POLICY_{name.upper()}")
