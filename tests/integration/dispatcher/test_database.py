"""What the pool makes of a database that is down, elsewhere, read-only, older or busy."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING
from urllib.parse import urlsplit, urlunsplit

import asyncpg
import pytest

from jobmesh.errors import BackendUnavailable
from jobmesh_dispatcher.database import IDLE_LIMIT, unavailable
from jobmesh_dispatcher.sql import load
from tests.support import decisions as d
from tests.support.proxy import TcpProxy
from tests.support.servers import TestPostgres

if TYPE_CHECKING:
    from jobmesh_dispatcher.database import Connection


async def test_a_server_that_takes_no_writes_is_unavailable_until_it_does(database: str) -> None:
    name = urlsplit(database).path.removeprefix("/")
    admin = await asyncpg.connect(database, timeout=10, command_timeout=10)
    async with d.opened(database) as db:
        await admin.execute(f"ALTER DATABASE {name} SET default_transaction_read_only = on")
        await admin.execute(
            """SELECT pg_terminate_backend(pid) FROM pg_stat_activity
               WHERE datname = current_database() AND pid <> pg_backend_pid()"""
        )
        for _ in range(4):
            with pytest.raises(BackendUnavailable):
                await db.ping()
        await admin.execute(f"ALTER DATABASE {name} RESET default_transaction_read_only")
        await db.ping()
    await admin.close(timeout=5)


async def test_a_database_without_the_schema_is_not_ready(postgres: TestPostgres) -> None:
    async with d.opened(postgres.dsn("postgres")) as db:
        with pytest.raises(BackendUnavailable):
            await db.ping()
        with pytest.raises(BackendUnavailable):
            await db.fetch(load("list_queues"))


async def test_a_change_of_the_schema_under_prepared_statements_is_survived(database: str) -> None:
    async with d.opened(database, size=3) as db:
        await d.make_queue(db)

        async def read(connection: Connection) -> int:
            rows = await connection.fetch(load("lock_queue"), "default", "default")
            return len(rows[0])

        before = await db.run(read)
        await db.fetch("ALTER TABLE jobmesh.queues ADD COLUMN later integer")
        for _ in range(3):
            assert await db.run(read) == before + 1


@pytest.mark.parametrize("sqlstate", ["53200", "57P05", "58030", "25P03", "55P03", "XX000"])
async def test_what_is_the_servers_own_trouble_is_unavailable(database: str, sqlstate: str) -> None:
    raising = f"DO $$ BEGIN RAISE EXCEPTION 'trouble' USING ERRCODE = '{sqlstate}'; END $$"
    async with d.opened(database) as db:
        with pytest.raises(BackendUnavailable):
            await db.fetch(raising)


async def test_data_that_is_refused_is_not_unavailable(database: str) -> None:
    async with d.opened(database) as db:
        with pytest.raises(asyncpg.DataError):
            await db.fetch("SELECT $1::text", "a\0b")


async def test_a_statement_that_meets_a_deadlock_is_repeated(database: str) -> None:
    async with d.opened(database) as db:
        await db.fetch("CREATE TABLE hot AS SELECT n FROM generate_series(1, 2) AS n")
        async with db.transaction() as connection:
            await connection.execute("UPDATE hot SET n = n WHERE n = 2")
            # Takes 1, waits for 2; and is the one whose wait the server finds to be a circle.
            other = asyncio.create_task(db.fetch("UPDATE hot SET n = n RETURNING n"))
            await d.blocked(db)
            await connection.execute("SET LOCAL deadlock_timeout = '1min'")
            await connection.execute("UPDATE hot SET n = n WHERE n = 1")
        assert len(await asyncio.wait_for(other, 10)) == 2


@pytest.mark.parametrize(
    "message",
    [
        'database is not accepting commands that assign new transaction IDs in database "jobmesh"',
        'multixact "members" limit exceeded',
    ],
)
def test_a_server_that_is_out_of_numbers_is_in_trouble_and_refuses_no_data(message: str) -> None:
    """It has the error class of data that is too large."""
    with pytest.raises(BackendUnavailable), unavailable():
        raise asyncpg.ProgramLimitExceededError(message)
    with pytest.raises(asyncpg.ProgramLimitExceededError), unavailable():
        raise asyncpg.ProgramLimitExceededError("row is too big")


async def test_a_transaction_that_nobody_goes_on_with_gives_its_locks_back(
    database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As when a dispatcher freezes in the middle of one."""
    monkeypatch.setitem(IDLE_LIMIT, "idle_in_transaction_session_timeout", "300ms")
    lock = "LOCK TABLE jobmesh.queues IN ACCESS EXCLUSIVE MODE"
    async with d.opened(database) as db:

        async def freeze() -> None:
            async with db.transaction() as frozen:
                await frozen.execute(lock)
                await asyncio.wait_for(db.run(lambda c: c.execute(lock)), 5)

        with pytest.raises(BackendUnavailable):
            await freeze()
        assert len(await db.fetch("SELECT 1")) == 1


async def test_a_server_that_answers_nothing_costs_seconds_and_no_connection(database: str) -> None:
    address = urlsplit(database)
    async with TcpProxy("127.0.0.1", address.port or 0) as proxy:
        host = f"{address.username}:{address.password}@127.0.0.1:{proxy.port}"
        async with d.opened(urlunsplit(address._replace(netloc=host)), size=2) as db:

            async def stall(connection: Connection) -> None:
                proxy.stall()
                await connection.fetch("SELECT 1", timeout=0.5)

            results = await asyncio.wait_for(
                asyncio.gather(*(db.run(stall) for _ in range(4)), return_exceptions=True), 30
            )
            assert all(isinstance(result, BackendUnavailable) for result in results)
            proxy.restore()
            assert len(await db.fetch("SELECT 1")) == 1


async def test_a_stop_is_a_stop_although_the_server_does_not_answer(database: str) -> None:
    address = urlsplit(database)
    async with TcpProxy("127.0.0.1", address.port or 0) as proxy:
        host = f"{address.username}:{address.password}@127.0.0.1:{proxy.port}"
        async with d.opened(urlunsplit(address._replace(netloc=host)), size=2) as db:
            stalled = asyncio.Event()

            async def stall(connection: Connection) -> None:
                proxy.stall()
                stalled.set()
                await connection.fetch("SELECT 1")

            task = asyncio.create_task(db.run(stall))
            await stalled.wait()
            await asyncio.sleep(0)  # and its statement is on its way
            task.cancel()
            await asyncio.wait({task}, timeout=20)
            assert task.cancelled()
            proxy.restore()
