"""SchedulerService: what gateways ask of any scheduler."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from asyncpg import exceptions

from jobmesh import __version__
from jobmesh.errors import BackendUnavailable, InvalidField
from jobmesh.page_token import (
    firing_token,
    parse_firing_token,
    parse_schedule_token,
    schedule_token,
)
from jobmesh.schedules.definition import to_utc
from jobmesh.v1 import scheduler_service_pb2 as pb
from jobmesh.v1.schedule_pb2 import FiringKind, Schedule
from jobmesh.v1.schedule_service_pb2 import ListFiringsResponse, ListSchedulesResponse
from jobmesh.v1.scheduler_service_pb2_grpc import SchedulerServiceServicer
from jobmesh.validation import page_size_or_default
from jobmesh_scheduler.ballot import BallotBox
from jobmesh_scheduler.database import DATABASE_ERRORS
from jobmesh_scheduler.desk import Desk
from jobmesh_scheduler.planning import planned
from jobmesh_scheduler.requested import backfill_overlap, fire_times, times_of

if TYPE_CHECKING:
    import grpc

    from jobmesh.v1.schedule_service_pb2 import PreviewScheduleRequest

    Context = grpc.aio.ServicerContext[object, object]

log = logging.getLogger(__name__)

FULL_NAME = "jobmesh.v1.SchedulerService"


class SchedulerService(SchedulerServiceServicer):
    """What the protos say of SchedulerService. Errors are raised; the server maps them."""

    def __init__(self, desk: Desk, holder: str) -> None:
        self._desk = desk
        self._holder = holder

    async def StoreSchedule(
        self, request: pb.StoreScheduleRequest, context: Context
    ) -> pb.StoreScheduleResponse:
        """Make a schedule."""
        with _database():
            schedule = await self._desk.store.create(request.namespace, request.request.schedule)
        return pb.StoreScheduleResponse(schedule=schedule)

    async def ReadSchedule(
        self, request: pb.ReadScheduleRequest, context: Context
    ) -> pb.ReadScheduleResponse:
        """Read a schedule."""
        with _database():
            known = await self._desk.store.read(request.namespace, request.schedule_id)
        return pb.ReadScheduleResponse(schedule=known.schedule)

    async def FindSchedules(
        self, request: pb.FindSchedulesRequest, context: Context
    ) -> pb.FindSchedulesResponse:
        """Read a page of schedules."""
        wanted = request.request
        after = parse_schedule_token(request.namespace, wanted)
        size = page_size_or_default(wanted.page_size)
        with _database():
            found, more = await self._desk.store.find(request.namespace, after, wanted.owner, size)
        token = schedule_token(request.namespace, wanted, found[-1].schedule_id) if more else ""
        page = ListSchedulesResponse(schedules=found, next_page_token=token)
        return pb.FindSchedulesResponse(page=page)

    async def ChangeSchedule(
        self, request: pb.ChangeScheduleRequest, context: Context
    ) -> pb.ChangeScheduleResponse:
        """Change a schedule."""
        wanted = request.request
        with _database():
            schedule = await self._desk.store.change(
                request.namespace, wanted.schedule, wanted.update_mask.paths
            )
        return pb.ChangeScheduleResponse(schedule=schedule)

    async def DropSchedule(
        self, request: pb.DropScheduleRequest, context: Context
    ) -> pb.DropScheduleResponse:
        """Remove a schedule."""
        wanted = request.request
        with _database():
            await self._desk.store.drop(request.namespace, wanted.schedule_id, wanted.etag)
        return pb.DropScheduleResponse()

    async def SetSchedulePaused(
        self, request: pb.SetSchedulePausedRequest, context: Context
    ) -> pb.SetSchedulePausedResponse:
        """Pause or resume a schedule."""
        with _database():
            schedule = await self._desk.store.set_paused(
                request.namespace, request.schedule_id, request.paused, request.note
            )
        return pb.SetSchedulePausedResponse(schedule=schedule)

    async def FireNow(self, request: pb.FireNowRequest, context: Context) -> pb.FireNowResponse:
        """Fire a schedule now."""
        wanted = request.request
        with _database():
            known = await self._desk.store.read(request.namespace, wanted.schedule_id)
        (firing,) = await fire_times(
            self._desk.calls,
            known,
            [to_utc(request.fire_time)],
            FiringKind.FIRING_KIND_TRIGGERED,
            wanted.overlap_policy,
        )
        return pb.FireNowResponse(firing=firing)

    async def FirePast(self, request: pb.FirePastRequest, context: Context) -> pb.FirePastResponse:
        """Fire times of the past."""
        wanted = request.request
        with _database():
            known = await self._desk.store.read(request.namespace, wanted.schedule_id)
            now = await self._desk.store.now()
        firings = await fire_times(
            self._desk.calls,
            known,
            times_of(known, wanted, now),
            FiringKind.FIRING_KIND_BACKFILLED,
            backfill_overlap(known, wanted.overlap_policy),
        )
        return pb.FirePastResponse(firings=firings)

    async def PlanFirings(
        self, request: pb.PlanFiringsRequest, context: Context
    ) -> pb.PlanFiringsResponse:
        """Tell when a schedule will fire."""
        wanted = request.request
        with _database():
            schedule = await self._schedule_of(request.namespace, wanted)
            now = await self._desk.store.now()
        return pb.PlanFiringsResponse(plan=planned(schedule, wanted, now))

    async def _schedule_of(self, namespace: str, wanted: PreviewScheduleRequest) -> Schedule:
        if wanted.WhichOneof("target") == "schedule":
            return wanted.schedule
        return (await self._desk.store.read(namespace, wanted.schedule_id)).schedule

    async def FindFirings(
        self, request: pb.FindFiringsRequest, context: Context
    ) -> pb.FindFiringsResponse:
        """Read a page of firings."""
        wanted = request.request
        before = parse_firing_token(request.namespace, wanted)
        with _database():
            known = await self._desk.store.read(request.namespace, wanted.schedule_id)
            found, more = await self._desk.store.firings(
                known, before, page_size_or_default(wanted.page_size)
            )
        token = firing_token(request.namespace, wanted, to_utc(found[-1].fire_time)) if more else ""
        page = ListFiringsResponse(firings=found, next_page_token=token)
        return pb.FindFiringsResponse(page=page)

    async def DescribeScheduler(
        self, request: pb.DescribeSchedulerRequest, context: Context
    ) -> pb.DescribeSchedulerResponse:
        """Say who this is, and who leads."""
        with _database():
            ballot = await BallotBox(self._desk.database, self._holder).read()
        return pb.DescribeSchedulerResponse(
            scheduler_id=self._holder,
            version=__version__,
            leader_id=ballot.holder or "",
            epoch=ballot.epoch,
        )


@contextmanager
def _database() -> Iterator[None]:
    """Tell of a database that is away as such, and of data that it refuses as bad input."""
    try:
        yield
    except exceptions.DataError as error:
        raise InvalidField("schedule", f"cannot be stored: {error}") from error
    except DATABASE_ERRORS as error:
        log.warning("postgresql: %s: %s", type(error).__name__, error)
        raise BackendUnavailable("postgresql") from error
