"""Real processes that stand for election at one database, and are killed, stopped and frozen."""

from __future__ import annotations

import asyncio
import contextlib
import random
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import asyncpg
import pytest
from asyncpg import exceptions

from jobmesh_dispatcher.store.leadership import hold_epoch
from jobmesh_scheduler import statements
from jobmesh_scheduler.ballot import ROLE, Ballot, BallotBox
from jobmesh_scheduler.database import Database
from jobmesh_scheduler.election import Election, Timing
from jobmesh_scheduler.tenure import Tenure
from tests.integration.scheduler import actor
from tests.support.process import ServiceProcess
from tests.support.proxy import TcpProxy
from tests.support.wait import until

LEASE = 1.0
# Two cores shared with everything else: what is promised at rest, and room for a busy machine.
ROOM = 10.0

Start = Callable[[str], Awaitable[ServiceProcess]]


@pytest.fixture
async def connection(database: str) -> AsyncIterator[asyncpg.Connection]:
    connection = await asyncpg.connect(database, timeout=10, command_timeout=10)
    await connection.execute(actor.TABLE)
    yield connection
    await connection.close(timeout=5)


@asynccontextmanager
async def actors(database: str, logs: Path) -> AsyncIterator[Start]:
    async with AsyncExitStack() as stack:

        async def start(name: str) -> ServiceProcess:
            command = (sys.executable, actor.__file__, database, name, str(LEASE))
            process = ServiceProcess(name, {}, logs / f"{name}.log", command)
            return await stack.enter_async_context(process)

        yield start


async def leads(connection: asyncpg.Connection, *names: str) -> str:
    """Wait until one of these acts under the latest epoch; its name."""
    query = """
        SELECT holder FROM acts WHERE epoch = (SELECT epoch FROM jobmesh.leadership)
        ORDER BY number DESC LIMIT 1
    """

    async def acting() -> str | None:
        holder = await connection.fetchval(query)
        return holder if holder in names else None

    return str(await until(acting, LEASE + ROOM, f"one of {names} leads"))


async def epochs_in_order_of_acts(connection: asyncpg.Connection) -> list[int]:
    return [
        row["epoch"] for row in await connection.fetch("SELECT epoch FROM acts ORDER BY number")
    ]


async def test_a_killed_leader_is_followed_after_its_lease(
    database: str, connection: asyncpg.Connection, tmp_path: Path
) -> None:
    async with actors(database, tmp_path) as start:
        first = await start("first")
        await leads(connection, "first")
        await start("second")
        await first.kill()
        killed = time.monotonic()
        await leads(connection, "second")
        # Renewed at most a quarter of a lease before it died, by a clock that is not ours.
        assert time.monotonic() - killed > LEASE / 2
        assert await connection.fetchval("SELECT epoch FROM jobmesh.leadership") == 2


async def test_a_leader_that_stops_is_followed_at_once(
    database: str, connection: asyncpg.Connection, tmp_path: Path
) -> None:
    async with actors(database, tmp_path) as start:
        first = await start("first")
        await leads(connection, "first")
        await start("second")
        assert await first.terminate() == 0
        row = await connection.fetchrow("SELECT * FROM jobmesh.leadership")
        assert row is not None
        assert row["holder"] in (None, "second")
        await leads(connection, "second")


async def test_a_frozen_leader_cannot_act_when_it_wakes(
    database: str, connection: asyncpg.Connection, tmp_path: Path
) -> None:
    async with actors(database, tmp_path) as start:
        first = await start("first")
        await leads(connection, "first")
        await start("second")
        first.freeze()
        await leads(connection, "second")
        before = await connection.fetchval("SELECT count(*) FROM acts WHERE holder = 'first'")
        first.thaw()
        await until(lambda: "no longer leads" in first.log.read_text() or None, ROOM)
        after = await connection.fetchval("SELECT count(*) FROM acts WHERE holder = 'first'")
        assert after == before
        await leads(connection, "second")


@pytest.mark.timeout(180)
async def test_acts_never_mix_epochs_whatever_happens_to_whom(
    database: str, connection: asyncpg.Connection, tmp_path: Path
) -> None:
    seed = random.randrange(1_000_000)
    rng = random.Random(seed)
    async with actors(database, tmp_path) as start:
        names = [f"actor-{number}" for number in range(3)]
        running = {name: await start(name) for name in names}
        for turn in range(8):
            leader = await leads(connection, *running)
            match rng.choice(["kill", "stop", "freeze"]):
                case "kill":
                    await running.pop(leader).kill()
                case "stop":
                    await running.pop(leader).terminate()
                case _:
                    running[leader].freeze()
                    others = [name for name in running if name != leader]
                    await leads(connection, *others)
                    running[leader].thaw()
            while len(running) < 3:
                name = f"actor-{turn}-{len(running)}"
                running[name] = await start(name)
        await leads(connection, *running)
    epochs = await epochs_in_order_of_acts(connection)
    assert epochs == sorted(epochs), f"seed {seed}"
    assert len(set(epochs)) >= 8
    holders = await connection.fetch(
        "SELECT epoch FROM acts GROUP BY epoch HAVING count(DISTINCT holder) > 1"
    )
    assert holders == [], f"seed {seed}"


async def test_a_renewal_does_not_wait_for_an_act_and_a_takeover_does(
    database: str, connection: asyncpg.Connection
) -> None:
    box = Database(database, timeout=10.0)
    await box.start()
    me, another = BallotBox(box, "me"), BallotBox(box, "another")
    try:
        assert await me.take(Ballot(epoch=0, counter=0, holder=None)) == 1
        async with connection.transaction():
            assert await connection.fetchval(actor.GUARD, 1)
            assert await me.renew(1)
            taking = asyncio.create_task(another.take(await me.read()))
            await until(lambda: waits_for_a_lock(connection), ROOM)
            assert not taking.done()
        assert await taking == 2
        assert not await connection.fetchval(actor.GUARD, 1)
        assert not await me.renew(1)
    finally:
        await box.stop()


async def renew(connection: asyncpg.Connection, epoch: int) -> None:
    await connection.fetchrow(statements.RENEW_LEADERSHIP, ROLE, epoch, "me")


@pytest.mark.parametrize("act", [hold_epoch, renew])
async def test_whoever_freezes_before_its_commit_holds_up_no_takeover(
    database: str,
    connection: asyncpg.Connection,
    act: Callable[[asyncpg.Connection, int], Awaitable[None]],
) -> None:
    """A dispatcher in the middle of an act, and the leader itself."""
    box = Database(database, timeout=ROOM)
    await box.start()
    try:
        assert await BallotBox(box, "me").take(Ballot(epoch=0, counter=0, holder=None)) == 1
        frozen = connection.transaction()
        await frozen.start()
        await act(connection, 1)
        # And now its process says nothing more.
        assert await BallotBox(box, "another").take(Ballot(epoch=1, counter=1, holder="me")) == 2
        cut = (exceptions.PostgresError, exceptions.InterfaceError, exceptions.InternalClientError)
        with pytest.raises(cut):  # the last if the driver has only half heard of it
            await frozen.commit()
    finally:
        await box.stop()


async def test_a_leader_whose_database_is_silent_stands_down_within_its_lease(
    database: str,
) -> None:
    host, port = database.rpartition("@")[2].split("/")[0].split(":")
    async with TcpProxy(host, int(port)) as proxy:
        box = Database(database.replace(f"{host}:{port}", proxy.address), timeout=0.5)
        stood_down = asyncio.Event()

        async def lead(tenure: Tenure) -> None:
            try:
                await asyncio.Event().wait()
            finally:
                stood_down.set()

        election = Election(BallotBox(box, "me"), lead, Timing.of_lease(LEASE))
        await box.start()
        await election.start()
        try:
            await until(lambda: election.tenure is not None, ROOM)
            proxy.stall()
            stalled = time.monotonic()
            await asyncio.wait_for(stood_down.wait(), ROOM)
            assert time.monotonic() - stalled < LEASE * 1.5
            proxy.restore()
            await until(lambda: election.tenure is not None and election.tenure.epoch == 2, ROOM)
        finally:
            await election.stop()
            await box.stop()


async def test_a_stop_ends_also_a_duty_whose_cancellation_was_lost(database: str) -> None:
    """As asyncpg loses one, when it fails to roll back what was cancelled."""
    box = Database(database, timeout=ROOM)

    async def lead(tenure: Tenure) -> None:
        while tenure.valid:
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.Event().wait()

    election = Election(BallotBox(box, "me"), lead, Timing.of_lease(LEASE))
    await box.start()
    await election.start()
    try:
        await until(lambda: election.tenure is not None, ROOM)
    finally:
        await asyncio.wait_for(election.stop(), ROOM)
        await box.stop()


async def waits_for_a_lock(connection: asyncpg.Connection) -> bool:
    return bool(
        await connection.fetchval(
            "SELECT count(*) FROM pg_stat_activity"
            " WHERE datname = current_database() AND wait_event_type = 'Lock'"
        )
    )
