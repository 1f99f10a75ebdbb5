"""ScheduleService: each call checked, then handed to a scheduler."""

from __future__ import annotations

import asyncio

from google.protobuf.timestamp_pb2 import Timestamp

from jobmesh.errors import InvalidField, PayloadTooLarge
from jobmesh.payload import Normal, normalise, present
from jobmesh.schedules.check import check_job, check_schedule, check_settings, check_times
from jobmesh.schedules.check import update_paths as checked_paths
from jobmesh.v1 import schedule_service_pb2 as pb
from jobmesh.v1 import scheduler_service_pb2 as internal
from jobmesh.v1.job_pb2 import JobSpec
from jobmesh.v1.schedule_pb2 import Firing, OverlapPolicy, Schedule
from jobmesh.v1.schedule_service_pb2_grpc import ScheduleServiceServicer
from jobmesh.validation import (
    Violations,
    check_id,
    check_note,
    check_page_size,
    check_timestamp,
)
from jobmesh.validation.enums import check_enum
from jobmesh.validation.times import NANOS
from jobmesh_gateway.dispatchers import Context, seconds_for
from jobmesh_gateway.presenting import LARGE_BYTES
from jobmesh_gateway.schedulers import Schedulers, scheduled
from jobmesh_gateway.submission import fill_defaults

FULL_NAME = "jobmesh.v1.ScheduleService"
MAX_PREVIEWED = 1000
TRIGGER_RANGE_SECONDS = 86_400


class ScheduleServicer(ScheduleServiceServicer):
    """What the protos say of ScheduleService. Errors are raised; the server maps them."""

    def __init__(self, schedulers: Schedulers, namespace: str, payload_limit: int) -> None:
        self._schedulers = schedulers
        self._namespace = namespace
        self._limit = payload_limit

    async def CreateSchedule(self, request: pb.CreateScheduleRequest, context: Context) -> Schedule:
        found = Violations()
        check_schedule(request.schedule, "schedule", found)
        await self._take_payload(request.schedule.job, found)
        found.raise_any()
        fill_defaults(request.schedule.job)
        if request.validate_only:
            return await _shown(request.schedule)
        wanted = internal.StoreScheduleRequest(namespace=self._namespace, request=request)
        call = self._schedulers.stub.StoreSchedule(wanted, timeout=seconds_for(context))
        return await _shown((await scheduled(call)).schedule)

    async def GetSchedule(self, request: pb.GetScheduleRequest, context: Context) -> Schedule:
        wanted = internal.ReadScheduleRequest(
            namespace=self._namespace, schedule_id=_checked_id(request.schedule_id)
        )
        call = self._schedulers.stub.ReadSchedule(wanted, timeout=seconds_for(context))
        return await _shown((await scheduled(call)).schedule)

    async def ListSchedules(
        self, request: pb.ListSchedulesRequest, context: Context
    ) -> pb.ListSchedulesResponse:
        found = Violations()
        check_page_size(request.page_size, "page_size", found)
        if request.owner:
            check_id(request.owner, "owner", found)
        found.raise_any()
        wanted = internal.FindSchedulesRequest(namespace=self._namespace, request=request)
        call = self._schedulers.stub.FindSchedules(wanted, timeout=seconds_for(context))
        page = (await scheduled(call)).page
        for schedule in page.schedules:
            await _shown(schedule)
        return page

    async def UpdateSchedule(self, request: pb.UpdateScheduleRequest, context: Context) -> Schedule:
        paths = await self._checked_update(request)
        del request.update_mask.paths[:]
        request.update_mask.paths.extend(paths)
        wanted = internal.ChangeScheduleRequest(namespace=self._namespace, request=request)
        call = self._schedulers.stub.ChangeSchedule(wanted, timeout=seconds_for(context))
        return await _shown((await scheduled(call)).schedule)

    async def _checked_update(self, request: pb.UpdateScheduleRequest) -> list[str]:
        """The settings that change. Those that depend on others are checked by the scheduler."""
        found, schedule = Violations(), request.schedule
        check_id(schedule.schedule_id, "schedule.schedule_id", found)
        paths = checked_paths(schedule, request.update_mask.paths, "update_mask", found)
        check_settings(schedule, paths, "schedule", found)
        if "job" in paths:
            check_job(schedule.job, "schedule.job", found)
            await self._take_payload(schedule.job, found)
            fill_defaults(schedule.job)
        found.raise_any()
        return paths

    async def DeleteSchedule(
        self, request: pb.DeleteScheduleRequest, context: Context
    ) -> pb.DeleteScheduleResponse:
        _checked_id(request.schedule_id)
        wanted = internal.DropScheduleRequest(namespace=self._namespace, request=request)
        await scheduled(self._schedulers.stub.DropSchedule(wanted, timeout=seconds_for(context)))
        return pb.DeleteScheduleResponse()

    async def PauseSchedule(self, request: pb.PauseScheduleRequest, context: Context) -> Schedule:
        found = Violations()
        check_id(request.schedule_id, "schedule_id", found)
        check_note(request.note, "note", found)
        found.raise_any()
        return await self._set_paused(request.schedule_id, True, request.note, context)

    async def ResumeSchedule(self, request: pb.ResumeScheduleRequest, context: Context) -> Schedule:
        return await self._set_paused(_checked_id(request.schedule_id), False, "", context)

    async def _set_paused(
        self, schedule_id: str, paused: bool, note: str, context: Context
    ) -> Schedule:
        wanted = internal.SetSchedulePausedRequest(
            namespace=self._namespace, schedule_id=schedule_id, paused=paused, note=note
        )
        call = self._schedulers.stub.SetSchedulePaused(wanted, timeout=seconds_for(context))
        return await _shown((await scheduled(call)).schedule)

    async def TriggerSchedule(self, request: pb.TriggerScheduleRequest, context: Context) -> Firing:
        found = Violations()
        check_id(request.schedule_id, "schedule_id", found)
        check_enum(request.overlap_policy, "overlap_policy", found, OverlapPolicy.DESCRIPTOR)
        time = _trigger_time(request, found)
        found.raise_any()
        wanted = internal.FireNowRequest(namespace=self._namespace, request=request, fire_time=time)
        call = self._schedulers.stub.FireNow(wanted, timeout=seconds_for(context))
        return (await scheduled(call)).firing

    async def BackfillSchedule(
        self, request: pb.BackfillScheduleRequest, context: Context
    ) -> pb.BackfillScheduleResponse:
        _check_backfill(request)
        wanted = internal.FirePastRequest(namespace=self._namespace, request=request)
        call = self._schedulers.stub.FirePast(wanted, timeout=seconds_for(context))
        return pb.BackfillScheduleResponse(firings=(await scheduled(call)).firings)

    async def PreviewSchedule(
        self, request: pb.PreviewScheduleRequest, context: Context
    ) -> pb.PreviewScheduleResponse:
        _check_preview(request)
        wanted = internal.PlanFiringsRequest(namespace=self._namespace, request=request)
        call = self._schedulers.stub.PlanFirings(wanted, timeout=seconds_for(context))
        return (await scheduled(call)).plan

    async def ListFirings(
        self, request: pb.ListFiringsRequest, context: Context
    ) -> pb.ListFiringsResponse:
        found = Violations()
        check_id(request.schedule_id, "schedule_id", found)
        check_page_size(request.page_size, "page_size", found)
        found.raise_any()
        wanted = internal.FindFiringsRequest(namespace=self._namespace, request=request)
        call = self._schedulers.stub.FindFirings(wanted, timeout=seconds_for(context))
        return (await scheduled(call)).page

    async def _take_payload(self, job: JobSpec, found: Violations) -> None:
        """Put the payload into its one form, as that of a job."""

        def normal() -> Normal:
            return normalise(job.payload, "schedule.job.payload", limit=self._limit)

        try:
            large = job.payload.ByteSize() > LARGE_BYTES
            payload = await asyncio.to_thread(normal) if large else normal()
        except (InvalidField, PayloadTooLarge) as error:
            found.take(error)
            return
        job.payload.data = payload.data
        job.payload.content_type = payload.content_type


async def _shown(schedule: Schedule) -> Schedule:
    """The schedule with its payload as callers get it."""
    payload = schedule.job.payload
    if payload.ByteSize() > LARGE_BYTES:
        await asyncio.to_thread(present, payload)
    else:
        present(payload)
    return schedule


def _trigger_time(request: pb.TriggerScheduleRequest, found: Violations) -> Timestamp:
    """What the firing is known by, as exact as it is stored."""
    now, time = Timestamp(), Timestamp()
    now.GetCurrentTime()
    time.CopyFrom(request.fire_time if request.HasField("fire_time") else now)
    if not 0 <= time.nanos < NANOS:
        found.add("fire_time", f"is no timestamp (nanos {time.nanos})")
    elif abs(time.seconds - now.seconds) > TRIGGER_RANGE_SECONDS:
        found.add("fire_time", "must lie within a day of the present time")
    else:
        time.nanos -= time.nanos % 1000
    return time


def _checked_id(schedule_id: str) -> str:
    found = Violations()
    check_id(schedule_id, "schedule_id", found)
    found.raise_any()
    return schedule_id


def _check_backfill(request: pb.BackfillScheduleRequest) -> None:
    found = Violations()
    check_id(request.schedule_id, "schedule_id", found)
    for name in ("start_time", "end_time"):
        if not request.HasField(name):
            found.add(name, "is required")
        check_timestamp(getattr(request, name), name, found)
    check_enum(request.overlap_policy, "overlap_policy", found, OverlapPolicy.DESCRIPTOR)
    found.raise_any()
    if request.end_time.ToNanoseconds() <= request.start_time.ToNanoseconds():
        raise InvalidField("end_time", "must be later than start_time")


def _check_preview(request: pb.PreviewScheduleRequest) -> None:
    found = Violations()
    match request.WhichOneof("target"):
        case "schedule":
            check_times(request.schedule, "schedule", found)
        case _:
            check_id(request.schedule_id, "schedule_id", found)
    if not 0 <= request.count <= MAX_PREVIEWED:
        found.add("count", f"is {request.count}; it must be 1 to {MAX_PREVIEWED}, or 0 for 10")
    check_timestamp(request.after, "after", found)
    found.raise_any()
