"""What schedules are read, changed and fired through.

It has connections of its own, so that no number of edits keeps the leader from renewing.
"""

from __future__ import annotations

import grpc.aio

from jobmesh.errors import BackendUnavailable
from jobmesh.server.channels import open_channel, resolve
from jobmesh_scheduler.config import SchedulerConfig
from jobmesh_scheduler.database import Database
from jobmesh_scheduler.dispatch import LeaderCalls
from jobmesh_scheduler.schedule_store import ScheduleStore

DISPATCH_SERVICE = "jobmesh.v1.DispatchService"
CONNECTIONS = 6
# A statement for a thousand schedules takes longer than one for the election.
TIMEOUT = 5.0


class Desk:
    """A lifecycle part."""

    def __init__(self, config: SchedulerConfig) -> None:
        self._targets = config.dispatchers
        timeout = max(TIMEOUT, config.database_timeout_seconds)
        self.database = Database(config.postgres_dsn, timeout=timeout, size=CONNECTIONS)
        self.store = ScheduleStore(self.database)
        self._channel: grpc.aio.Channel | None = None

    @property
    def calls(self) -> LeaderCalls:
        """The way to the dispatchers. :raises BackendUnavailable: before the start."""
        if self._channel is None:
            raise BackendUnavailable("dispatcher")
        return LeaderCalls(self._channel)

    async def start(self) -> None:
        """Open the channel and the pool; both connect when they are used."""
        self._channel = open_channel(await resolve(self._targets), DISPATCH_SERVICE)
        await self.database.start()

    async def stop(self) -> None:
        """Close both."""
        await self.database.stop()
        channel, self._channel = self._channel, None
        if channel is not None:
            await channel.close(None)
