"""PostgreSQL: a pool whose every wait has an end, and transactions that may be repeated.

A failure to reach the server, or to be served in time, is `BackendUnavailable`. A commit whose
answer was lost is *unknown*, not failed: whoever tries again must name what it did before (an
operation id, an attempt, an epoch), so that it finds it done. That is why `run` may repeat an act
only where the server itself says that nothing was written.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, TypeVar

import asyncpg

from jobmesh.errors import BackendUnavailable

if TYPE_CHECKING:
    from asyncpg.pool import PoolConnectionProxy

    Connection = PoolConnectionProxy | asyncpg.Connection

T = TypeVar("T")

log = logging.getLogger(__name__)

CONNECT_TIMEOUT_SECONDS = 5.0
STATEMENT_TIMEOUT_SECONDS = 10.0
ACQUIRE_TIMEOUT_SECONDS = 2.0
TRIES = 4

# The server rolled the transaction back, and says that the same one may pass the next time.
_REPEATABLE = (asyncpg.DeadlockDetectedError, asyncpg.SerializationError)
_UNREACHABLE = (
    OSError,
    TimeoutError,
    asyncpg.PostgresConnectionError,
    asyncpg.CannotConnectNowError,
    asyncpg.TooManyConnectionsError,
    asyncpg.AdminShutdownError,
    asyncpg.CrashShutdownError,
    asyncpg.QueryCanceledError,
    asyncpg.DiskFullError,
    asyncpg.InterfaceError,  # type: ignore[attr-defined]
    asyncpg.InvalidCatalogNameError,
)


class Database:
    """The pool of one dispatcher."""

    def __init__(self, dsn: str, *, size: int = 10, statement_cache_size: int = 100) -> None:
        self._dsn = dsn
        self._size = size
        self._statement_cache_size = statement_cache_size
        self._pool: asyncpg.Pool | None = None

    async def start(self) -> None:
        """Connect. Raises `BackendUnavailable`."""
        with unavailable():
            self._pool = await asyncpg.create_pool(
                self._dsn,
                min_size=2,
                max_size=self._size,
                timeout=CONNECT_TIMEOUT_SECONDS,
                command_timeout=STATEMENT_TIMEOUT_SECONDS,
                statement_cache_size=self._statement_cache_size,
                target_session_attrs="read-write",  # the primary, also after a failover
                reset=_nothing_to_reset,
                server_settings={"application_name": "jobmesh-dispatcher"},
            )

    async def stop(self) -> None:
        """Close the pool; connections that do not end in time are cut."""
        pool, self._pool = self._pool, None
        if pool is None:
            return
        try:
            await asyncio.wait_for(pool.close(), 5)
        except TimeoutError:
            pool.terminate()

    @asynccontextmanager
    async def connection(self) -> AsyncIterator[Connection]:
        """A connection for statements that are transactions by themselves."""
        if self._pool is None:
            raise BackendUnavailable("postgresql")
        with unavailable():
            try:
                async with self._pool.acquire(timeout=ACQUIRE_TIMEOUT_SECONDS) as connection:
                    yield connection
            except asyncpg.ReadOnlySQLTransactionError:
                # A failover left us with the old primary: none of its connections is of use any
                # more.
                await self._pool.expire_connections()
                raise BackendUnavailable("postgresql") from None

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[Connection]:
        """A connection inside a transaction, committed at the end."""
        async with self.connection() as connection, connection.transaction():
            yield connection

    async def run(self, act: Callable[[Connection], Awaitable[T]]) -> T:
        """Carry out `act` in one transaction; again from the start after a deadlock."""
        for left in reversed(range(TRIES)):
            try:
                async with self.transaction() as connection:
                    return await act(connection)
            except _REPEATABLE as error:
                if not left:
                    raise BackendUnavailable("postgresql") from error
                log.info("transaction repeated: %s", error)
        raise AssertionError("unreachable")

    async def fetch(self, statement: str, *args: Any) -> list[asyncpg.Record]:
        """Run one statement as a transaction of its own."""
        async with self.connection() as connection:
            rows: list[asyncpg.Record] = await connection.fetch(statement, *args)
            return rows

    async def ping(self) -> None:
        """Raise unless the server takes writes: a full disk lets reads and connects pass."""
        async with self.transaction() as connection:
            await connection.fetchval("SELECT pg_current_xact_id()", timeout=2)


async def _nothing_to_reset(connection: Connection) -> None:
    """Settings are set for a transaction at the most; the pool's own way costs a round trip."""


class unavailable:  # noqa: N801 - reads as a statement
    """Turns a failure to reach PostgreSQL into `BackendUnavailable`."""

    def __enter__(self) -> None:
        return None

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: object
    ) -> None:
        # A ValueError is one of ours: an argument that does not fit its column.
        if isinstance(error, _UNREACHABLE) and not isinstance(error, ValueError):
            log.warning("postgresql: %s: %s", type(error).__name__, error)
            raise BackendUnavailable("postgresql") from error
