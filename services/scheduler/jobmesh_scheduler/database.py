"""The scheduler's few connections to PostgreSQL, each wait with an end."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import asyncpg
from asyncpg import exceptions

from jobmesh.server.cancellation import cancellation_kept

if TYPE_CHECKING:
    from asyncpg.pool import PoolConnectionProxy

    Connection = PoolConnectionProxy

MOST_CONNECTIONS = 2
CLOSE_TIMEOUT = 2.0
# What may go wrong with the database from outside; everything else is a defect of ours.
DATABASE_ERRORS = (
    exceptions.PostgresError,
    exceptions.InterfaceError,
    exceptions.InternalClientError,
    OSError,
    TimeoutError,
)


class Database:
    """A pool that connects when first used: a database that is down does not keep us from starting.

    The DSN may name several hosts; the one that takes writes is used. ``timeout`` is in seconds,
    and holds for connecting, for getting a connection and for a statement, each.
    """

    def __init__(self, dsn: str, *, timeout: float, size: int = MOST_CONNECTIONS) -> None:
        self._dsn = dsn
        self._size = size
        self._timeout = timeout
        self._pool: asyncpg.Pool | None = None

    async def start(self) -> None:
        """Make the pool; nothing is connected yet."""
        self._pool = await asyncpg.create_pool(
            self._dsn,
            min_size=0,
            max_size=self._size,
            max_inactive_connection_lifetime=60.0,
            timeout=self._timeout,
            command_timeout=self._timeout,
            # A pooler in transaction mode may stand between: nothing outlives a transaction.
            statement_cache_size=0,
            target_session_attrs="read-write",
            reset=_nothing_to_reset,
            server_settings={"application_name": "jobmesh-scheduler"},
        )

    async def stop(self) -> None:
        """Close the connections."""
        pool, self._pool = self._pool, None
        if pool is None:
            return
        try:
            async with asyncio.timeout(CLOSE_TIMEOUT):
                await pool.close()
        except TimeoutError:
            pool.terminate()

    async def row(self, statement: str, *arguments: object) -> asyncpg.Record | None:
        """The statement's first row, committed.

        :raises: one of `DATABASE_ERRORS`.
        """
        async with self.transaction() as connection:
            row: asyncpg.Record | None = await connection.fetchrow(statement, *arguments)
            return row

    async def rows(self, statement: str, *arguments: object) -> list[asyncpg.Record]:
        """All rows of the statement, committed.

        :raises: one of `DATABASE_ERRORS`.
        """
        async with self.transaction() as connection:
            rows: list[asyncpg.Record] = await connection.fetch(statement, *arguments)
            return rows

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[Connection]:
        """A connection inside a transaction, committed at the end.

        :raises: one of `DATABASE_ERRORS`.
        """
        if self._pool is None:
            raise exceptions.InterfaceError("the pool is closed")
        try:
            with cancellation_kept(*DATABASE_ERRORS):
                async with (
                    self._pool.acquire(timeout=self._timeout) as connection,
                    connection.transaction(),
                ):
                    yield connection
        except exceptions.ReadOnlySQLTransactionError:
            # The primary was demoted under us: connect again, to wherever it is now.
            if self._pool is not None:
                await self._pool.expire_connections()
            raise
        except exceptions.PostgresError as error:
            # Whole rows, payloads included; and this may be logged.
            error.detail = None  # type: ignore[attr-defined]
            raise


async def _nothing_to_reset(connection: object) -> None:
    """No setting of a connection is ever changed; the pool's own way costs a round trip."""
