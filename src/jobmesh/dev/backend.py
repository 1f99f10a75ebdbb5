"""The embedded servers as processes that are kept running."""

from __future__ import annotations

from jobmesh.dev.child import Child
from jobmesh.dev.nats import EmbeddedNats
from jobmesh.dev.postgres import EmbeddedPostgres


class Backend:
    """A server whose `start` returns when it serves."""

    def __init__(self, name: str, server: EmbeddedPostgres | EmbeddedNats) -> None:
        self.name = name
        self.server = server

    @property
    def child(self) -> Child | None:
        """The process of its latest life."""
        return self.server.child

    async def start(self) -> None:
        """Start it and wait until it answers."""
        await self.server.start()

    async def serves(self) -> bool:
        """Started is serving."""
        return True

    async def stop(self) -> None:
        """Its own orderly way."""
        await self.server.stop()

    def kill(self) -> None:
        """At once; PostgreSQL recovers at its next start."""
        self.server.kill()
