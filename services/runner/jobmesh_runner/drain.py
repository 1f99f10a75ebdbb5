"""The end of a runner that nobody suffers from: its jobs are finished or go elsewhere unharmed."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from jobmesh.server.grpc_server import GrpcServer
from jobmesh.server.readiness import Readiness
from jobmesh_runner.capacity import CapacityTeller
from jobmesh_runner.claims import Claims
from jobmesh_runner.session import Session
from jobmesh_runner.supervision import Supervision

log = logging.getLogger(__name__)

ANSWER_SECONDS = 5.0
"""For the dispatcher to record the last reports."""


def clean_up_seconds(grace: float) -> float:
    """The end of the grace, in which handlers that still run are told to stop and may clean up."""
    return min(5.0, grace * 0.2)


class Drain:
    """The part that starts last, so that its stop, which drains, comes first."""

    def __init__(
        self,
        session: Session,
        capacity: CapacityTeller,
        supervision: Supervision,
        claims: Claims,
        server: GrpcServer,
        readiness: Readiness,
        grace_seconds: float,
    ) -> None:
        self._session = session
        self._capacity = capacity
        self._supervision = supervision
        self._claims = claims
        self._server = server
        self._readiness = readiness
        self._grace = grace_seconds
        self._changed = asyncio.Event()
        self._done = False

    async def start(self) -> None:
        """Nothing to do yet."""

    async def stop(self) -> None:
        """Finish what runs within the grace, give back the rest, and take leave."""
        if self._done:
            return
        self._done = True
        self._supervision.on_settled = self._changed.set
        await self._refuse_more()
        clean_up = clean_up_seconds(self._grace)
        if not await self._until(self._all_ended, self._grace - clean_up):
            log.info("telling %d handlers to stop", len(self._claims.unreported()))
            self._supervision.interrupt_all(clean_up + 1.0)
            if not await self._until(self._all_ended, clean_up):
                self._supervision.abandon_all()
        self._session.wake()
        if not await self._until(self._all_answered, ANSWER_SECONDS):
            log.error("%d reports were not answered", len(self._claims))
        await self._session.leave()

    async def _refuse_more(self) -> None:
        self._readiness.set_draining()
        self._server.set_serving(False)
        self._capacity.drain()
        self._supervision.drain()
        self._session.wake()

    def _all_ended(self) -> bool:
        return not self._claims.unreported()

    def _all_answered(self) -> bool:
        return not len(self._claims)

    async def _until(self, condition: Callable[[], bool], seconds: float) -> bool:
        try:
            async with asyncio.timeout(max(seconds, 0.0)):
                while not condition():
                    self._changed.clear()
                    await self._changed.wait()
        except TimeoutError:
            return condition()
        return True
