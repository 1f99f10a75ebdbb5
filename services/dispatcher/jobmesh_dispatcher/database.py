"""PostgreSQL: a pool whose every wait has an end, and transactions that may be repeated.

A failure to reach the server, or to be served in time, is `BackendUnavailable`. A commit whose
answer was lost is *unknown*, not failed: whoever tries again must name what it did before (an
operation id, an attempt, an epoch), so that it finds it done. That is why `run` may repeat an act
only where the server itself says that nothing was written.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, TypeVar

import asyncpg

from jobmesh.errors import BackendUnavailable
from jobmesh.server.cancellation import cancellation_kept
from jobmesh_dispatcher.sql import load

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
_REPEATABLE = (
    asyncpg.DeadlockDetectedError,
    asyncpg.SerializationError,
    asyncpg.InvalidCachedStatementError,  # the schema has changed under a prepared statement
)
_BROKEN = (
    OSError,
    TimeoutError,
    asyncpg.InterfaceError,  # type: ignore[attr-defined]
    asyncpg.InternalClientError,  # type: ignore[attr-defined]  # among them: no host takes writes
)
# What may come of a statement that is cancelled, in place of the cancellation.
_IN_ITS_PLACE = (*_BROKEN, asyncpg.PostgresError)  # type: ignore[attr-defined]
# Classes of SQLSTATE that are the server's own trouble, not a fault of what it was asked.
# https://www.postgresql.org/docs/current/errcodes-appendix.html
_TROUBLE = (
    "08",  # the connection
    "25",  # the state of the transaction: read-only, or ended by a time-out
    "28",  # the login
    "3D",  # no such database
    "53",  # resources
    "55",  # an object in use
    "57",  # an operator, a shutdown
    "58",  # the system
    "F0",  # the configuration
    "XX",  # the server itself
)
_OTHER_SCHEMA = (
    asyncpg.UndefinedTableError,
    asyncpg.InvalidSchemaNameError,
    asyncpg.UndefinedColumnError,
    asyncpg.UndefinedFunctionError,
)
# What the server, or the driver, refuses because of the values in it. Halving finds the row.
REFUSED = (
    asyncpg.DataError,
    asyncpg.IntegrityConstraintViolationError,
    asyncpg.ProgramLimitExceededError,
    ValueError,
)

# A dispatcher that freezes, or whose host is gone, in the middle of a transaction holds locks: of
# sessions, which then cannot move, of slots and of jobs. The server ends it after this.
IDLE_LIMIT = {"idle_in_transaction_session_timeout": "5s"}
# For statements that read what nobody can foresee: each is planned for its arguments, for 0.1 to
# 0.7 ms, and for 4 ms and more where it reads the history with all its partitions. A plan that is
# kept from when a table was small reads all of it once it is large.
FRESH_PLANS = {"plan_cache_mode": "force_custom_plan", "jit": "off"}
# For the statements of a job's life, which find rows by their keys: planned once, and so that there
# is no plan but one over indexes, however small the table is at the time. With plans kept from a
# small table, a claim took 130 ms with 200,000 jobs.
KEPT_PLANS = {
    "plan_cache_mode": "force_generic_plan",
    "jit": "off",  # before PostgreSQL 18 what is switched off costs so much that it is compiled
    "enable_seqscan": "off",
    "enable_hashjoin": "off",
    "enable_mergejoin": "off",
}


class Database:
    """A pool of one dispatcher."""

    def __init__(
        self,
        dsn: str,
        *,
        size: int = 10,
        statement_cache_size: int = 100,
        plans: Mapping[str, str] = FRESH_PLANS,
    ) -> None:
        self._dsn = dsn
        self._size = size
        self._statement_cache_size = statement_cache_size
        # A pooler takes no settings; without prepared statements each is planned anyway.
        self._settings = {**IDLE_LIMIT, **plans} if statement_cache_size else {}
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
                server_settings={"application_name": "jobmesh-dispatcher", **self._settings},
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
        pool = self._pool
        if pool is None:
            raise BackendUnavailable("postgresql")
        with unavailable(), cancellation_kept(*_IN_ITS_PLACE):
            try:
                async with pool.acquire(timeout=ACQUIRE_TIMEOUT_SECONDS) as connection:
                    yield connection
            except asyncpg.ReadOnlySQLTransactionError:
                # A failover left us with the old primary: none of its connections is of use any
                # more.
                await pool.expire_connections()
                raise BackendUnavailable("postgresql") from None

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[Connection]:
        """A connection inside a transaction, committed at the end."""
        async with self.connection() as connection, connection.transaction():
            yield connection

    async def run(self, act: Callable[[Connection], Awaitable[T]]) -> T:
        """Carry out `act` in one transaction; again from the start after a deadlock."""

        async def once() -> T:
            async with self.transaction() as connection:
                return await act(connection)

        return await _repeated(once)

    async def run_alone(self, act: Callable[[Connection], Awaitable[T]]) -> T:
        """Carry out `act`, which writes with one statement at most: it needs no transaction."""

        async def once() -> T:
            async with self.connection() as connection:
                return await act(connection)

        return await _repeated(once)

    async def fetch(self, statement: str, *args: Any) -> list[asyncpg.Record]:
        """Run one statement as a transaction of its own; again after a deadlock."""

        async def once() -> list[asyncpg.Record]:
            async with self.connection() as connection:
                rows: list[asyncpg.Record] = await connection.fetch(statement, *args)
                return rows

        return await _repeated(once)

    async def ping(self) -> None:
        """Raise unless the server takes writes: a full disk lets reads and connects pass.

        Nor is it of use before it has the schema.
        """
        async with self.transaction() as connection:
            await connection.fetchval(load("ping"), timeout=2)


async def _repeated(once: Callable[[], Awaitable[T]]) -> T:
    for left in reversed(range(TRIES)):
        try:
            return await once()
        except _REPEATABLE as error:
            if not left:
                raise BackendUnavailable("postgresql") from error
            log.info("transaction repeated: %s", error)
        except asyncpg.CheckViolationError as error:
            # Without a name it is a partition's: a day of history was made when the row was on its
            # way to the rest partition, which may not have it any more. Next time the day gets it.
            if error.constraint_name:  # type: ignore[attr-defined]
                raise
            if not left:
                raise BackendUnavailable("postgresql") from error
            log.info("transaction repeated: %s", error)
    raise AssertionError("unreachable")


async def _nothing_to_reset(connection: Connection) -> None:
    """Settings are set for a transaction at the most; the pool's own way costs a round trip."""


class unavailable:  # noqa: N801 - reads as a statement
    """Turns a failure to reach PostgreSQL into `BackendUnavailable`; no error shows rows."""

    def __enter__(self) -> None:
        return None

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: object
    ) -> None:
        if isinstance(error, asyncpg.PostgresError):  # type: ignore[attr-defined]
            error.detail = None  # whole rows, payloads included; and this may be logged
        if error is not None and _is_unavailable(error):
            log.warning("postgresql: %s: %s", type(error).__name__, error)
            raise BackendUnavailable("postgresql") from error


def _is_unavailable(error: BaseException) -> bool:
    if isinstance(error, (*_REPEATABLE, ValueError)):
        return False  # a ValueError is one of ours: an argument that does not fit its column
    if isinstance(error, _OTHER_SCHEMA):
        log.error("the database has not the schema of this version: run `jobmesh migrate`")
        return True
    if isinstance(error, asyncpg.ProgramLimitExceededError):
        return "database is not accepting" in str(error) or "multixact" in str(error)
    if isinstance(error, asyncpg.PostgresError):  # type: ignore[attr-defined]
        return (error.sqlstate or "XX").startswith(_TROUBLE)
    return isinstance(error, _BROKEN)
