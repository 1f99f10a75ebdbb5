"""PostgreSQL and NATS for tests: fast, not durable against a power cut."""

from __future__ import annotations

from pathlib import Path

import asyncpg

from jobmesh.dev.nats import EmbeddedNats, NatsConfig
from jobmesh.dev.postgres import EmbeddedPostgres, PostgresConfig
from jobmesh_dispatcher.migrate import migrate

TEMPLATE = "jobmesh_template"
TIMEOUT = 20.0


class TestPostgres:
    """A server whose databases are copies of one migrated template."""

    __test__ = False

    def __init__(self, root: Path, port: int) -> None:
        self.server = EmbeddedPostgres(PostgresConfig(root=root, port=port, durable=False))

    async def start(self) -> None:
        """Start it and migrate the template."""
        await self.server.start()
        await self._execute(f"CREATE DATABASE {TEMPLATE}")
        await migrate(self.dsn(TEMPLATE))

    async def stop(self) -> None:
        await self.server.stop()

    def dsn(self, database: str) -> str:
        return self.server.dsn(database)

    async def clone(self, name: str, template: str = TEMPLATE) -> None:
        """Make a database like the template, which nobody may be connected to."""
        # Without fsync a copy of the files is faster than one through the log.
        await self._execute(f"CREATE DATABASE {name} TEMPLATE {template} STRATEGY FILE_COPY")

    async def drop(self, name: str) -> None:
        """Remove it, ending whoever is still connected."""
        await self._execute(f"DROP DATABASE {name} WITH (FORCE)")

    async def _execute(self, statement: str) -> None:
        connection = await asyncpg.connect(
            self.dsn("postgres"), timeout=TIMEOUT, command_timeout=TIMEOUT
        )
        try:
            await connection.execute(statement)
        finally:
            await connection.close(timeout=TIMEOUT)


def new_nats(root: Path, port: int) -> EmbeddedNats:
    """An own server, since the names of streams are fixed; it starts in milliseconds."""
    return EmbeddedNats(NatsConfig(root=root / "nats", port=port))
