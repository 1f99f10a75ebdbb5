"""The leader: an election, the channel to dispatchers, and the duties of a tenure."""

from __future__ import annotations

from collections.abc import Sequence

import grpc.aio

from jobmesh.channels import open_channel, resolve
from jobmesh.v1 import dispatch_service_pb2
from jobmesh_scheduler.ballot import BallotBox
from jobmesh_scheduler.buffering import Buffering
from jobmesh_scheduler.config import SchedulerConfig
from jobmesh_scheduler.database import Database
from jobmesh_scheduler.desk import Desk
from jobmesh_scheduler.dispatch import LeaderCalls
from jobmesh_scheduler.duties import Duty, perform
from jobmesh_scheduler.election import Election, Timing
from jobmesh_scheduler.expiry import Expiry
from jobmesh_scheduler.firing import Firing
from jobmesh_scheduler.promotion import Promotion
from jobmesh_scheduler.reconciliation import Reconciliation
from jobmesh_scheduler.retention import Retention
from jobmesh_scheduler.sessions import Sessions
from jobmesh_scheduler.tenure import Tenure

DISPATCH_SERVICE = dispatch_service_pb2.DESCRIPTOR.services_by_name["DispatchService"].full_name


class Leader:
    """A part of the service: stands for election and, while elected, does what a leader has to.

    ``holder`` names this life of the process in the leadership row.
    """

    def __init__(self, config: SchedulerConfig, holder: str, desk: Desk) -> None:
        self._config = config
        self._desk = desk
        self._database = Database(config.postgres_dsn, timeout=config.database_timeout_seconds)
        self._election = Election(
            BallotBox(self._database, holder),
            self._lead,
            Timing.of_lease(config.leader_lease_seconds),
        )
        self._channel: grpc.aio.Channel | None = None

    @property
    def tenure(self) -> Tenure | None:
        """The present tenure, if this process leads."""
        return self._election.tenure

    async def check_database(self) -> bool:
        """Whether the database answers, as far as the election has seen."""
        return self._election.database_reachable

    async def start(self) -> None:
        """Open the channel and the pool, and stand for election."""
        targets = await resolve(self._config.dispatchers)
        # Not the traced kind: what is asked several times a second, of no job, is no trace.
        self._channel = open_channel(targets, DISPATCH_SERVICE)
        await self._database.start()
        await self._election.start()

    async def stop(self) -> None:
        """Stop leading, let another one lead at once, close what was opened."""
        await self._election.stop()
        await self._database.stop()
        if self._channel is not None:
            await self._channel.close(None)

    async def _lead(self, tenure: Tenure) -> None:
        assert self._channel is not None
        await perform(self._duties(LeaderCalls(self._channel), tenure), tenure)

    def _duties(self, calls: LeaderCalls, tenure: Tenure) -> Sequence[Duty]:
        return (
            Retention(calls),
            Promotion(calls, tenure),
            Expiry(calls, tenure),
            Sessions(calls, self._config.session_lease_seconds),
            Reconciliation(calls),
            Firing(self._desk.database, calls),
            Buffering(calls),
        )
