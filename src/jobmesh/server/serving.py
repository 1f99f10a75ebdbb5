"""A server's health in line with its readiness: a replica that cannot work asks to be left out.

For a replica that others can stand in for. Once *all* of them have said that they do not serve (the
database is down for everybody), a call fails at once with UNAVAILABLE at whoever makes it, in place
of waiting for each of them in turn; and the first that can work again is used within a second. So
what explains failures to callers, as a gateway does, had better not hide behind its health: it goes
on to serve, and says what is down.
"""

from __future__ import annotations

import logging
from typing import Protocol

from jobmesh.server.readiness import Readiness
from jobmesh.server.tasks import Periodic

log = logging.getLogger(__name__)


class Health(Protocol):
    """Whose health it is: a :class:`~jobmesh.server.grpc_server.GrpcServer`."""

    def set_serving(self, serving: bool) -> None:
        """Say whether clients should use this replica."""


class Serving:
    """A part of a service, started after its server.

    - ``patience``: how many reports in a row have to be bad; one good one is enough.
    """

    def __init__(
        self,
        server: Health,
        readiness: Readiness,
        *,
        interval_seconds: float = 1.0,
        patience: int = 2,
    ) -> None:
        self._server = server
        self._readiness = readiness
        self._patience = patience
        self._bad = 0
        self._periodic = Periodic("serving", interval_seconds, self.look)

    async def start(self) -> None:
        """Begin to look."""
        await self._periodic.start()

    async def stop(self) -> None:
        """Leave the health as it is."""
        await self._periodic.stop()

    async def look(self) -> None:
        """Read the readiness, and tell if that makes a difference."""
        report = await self._readiness.report()
        before, self._bad = self._bad, 0 if report.ready else self._bad + 1
        if self._bad == self._patience:
            log.warning("clients are asked to use other replicas")
            self._server.set_serving(False)
        elif report.ready and before >= self._patience:
            log.info("clients are asked to come back")
            self._server.set_serving(True)
