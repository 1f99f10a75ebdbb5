"""Schedulers and a dispatcher as processes: each time fired once, whoever dies, and on time."""

from __future__ import annotations

import asyncio
import importlib.util
import json
import logging
import random
from collections.abc import AsyncIterator, Iterable
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path

import asyncpg
import pytest

from jobmesh.dev.ports import PortPool
from jobmesh.v1.schedule_pb2 import Schedule
from jobmesh_scheduler.schedule_store import ScheduleStore
from tests.support import decisions as d
from tests.support import schedules as s
from tests.support.effort import FULL, full
from tests.support.process import ServiceProcess
from tests.support.wait import until

log = logging.getLogger(__name__)

ROOM = 20.0
SCHEDULES = full(200, 50)
SECONDS = full(60, 5)
ROUNDS = range(full(10, 1))
LEASE = 1.0
# What the leader's absence may cost, by the lateness of the firings that fell into it.
TAKEN_OVER_SECONDS = {"kill": 3.0, "stop": 0.5}


class Fleet:
    """A dispatcher and three schedulers on one database."""

    def __init__(self, dsn: str, nats_url: str, ports: PortPool, logs: Path) -> None:
        self._logs, self._ports, self._started = logs, ports, 0
        self._shared = {
            "JOBMESH_POSTGRES_DSN": dsn,
            "JOBMESH_NATS_URL": nats_url,
            "JOBMESH_DISPATCHERS": f"127.0.0.1:{ports.take()}",
            "JOBMESH_LEADER_LEASE_SECONDS": str(LEASE),
        }
        self.dispatcher = self.new_dispatcher()
        self.schedulers: dict[str, ServiceProcess] = {}

    def _process(self, service: str, port: str = "0", **more: str) -> ServiceProcess:
        self._started += 1
        own = {"JOBMESH_PORT": port, "JOBMESH_HTTP_PORT": str(self._ports.take())} | more
        log = self._logs / f"{service}-{self._started}.log"
        return ServiceProcess(service, self._shared | own, log)

    def new_dispatcher(self, **more: str) -> ServiceProcess:
        port = self._shared["JOBMESH_DISPATCHERS"].rpartition(":")[2]
        return self._process("dispatcher", port, **more)

    async def start_scheduler(self, clock: str = "") -> None:
        """Start another one; `clock` is how much its clock is off, as `+300s`."""
        began = datetime.now(UTC)
        process = self._process("scheduler", **(clock_off_by(clock) if clock else {}))
        await process.start()
        self.schedulers[str(process.pid)] = process
        await until(lambda: takes_part(process), ROOM, "it takes part in elections")
        if clock:
            told = datetime.fromisoformat(
                json.loads(process.log.read_text().split("\n")[0])["time"]
            )
            assert abs(told - began) > timedelta(minutes=4), "its clock is not off"

    async def stop(self) -> None:
        running = [*self.schedulers.values(), self.dispatcher]
        await asyncio.gather(*(process.__aexit__(None, None, None) for process in running))


def takes_part(process: ServiceProcess) -> bool:
    """Whether a scheduler has come to its last part, the election; its log tells.

    Its readiness tells too, but a second later: so long it remembers that it was asked too early.
    """
    assert process.child is not None
    process.child.require_running()
    return "gRPC on" in process.log.read_text()


def clock_off_by(much: str) -> dict[str, str]:
    """What makes a process read another time of day; how time goes by stays as it is."""
    spec = importlib.util.find_spec("libfaketime")
    assert spec is not None
    assert spec.origin is not None
    library = Path(spec.origin).parent / "vendor/libfaketime/src/libfaketime.so.1"
    return {
        "LD_PRELOAD": str(library),
        "FAKETIME": much,
        "FAKETIME_DONT_FAKE_MONOTONIC": "1",
        "DONT_FAKE_MONOTONIC": "1",
    }


@pytest.fixture
async def connection(database: str) -> AsyncIterator[asyncpg.Connection]:
    connection = await asyncpg.connect(database, timeout=10, command_timeout=20)
    yield connection
    await connection.close(timeout=5)


@pytest.fixture
def point() -> str:
    """Where the dispatcher dies; nowhere, unless a test says so by a parameter of this name."""
    return ""


@pytest.fixture
async def fleet(
    database: str, nats_url: str, ports: PortPool, tmp_path: Path, point: str
) -> AsyncIterator[Fleet]:
    made = Fleet(database, nats_url, ports, tmp_path)
    if point:
        made.dispatcher = made.new_dispatcher(JOBMESH_FAILPOINTS=f"{point}=kill")
    try:
        await made.dispatcher.start()
        await asyncio.gather(made.dispatcher.ready(), *(made.start_scheduler() for _ in range(3)))
        yield made
    finally:
        await made.stop()


@pytest.fixture
async def store(database: str) -> AsyncIterator[ScheduleStore]:
    async with s.opened(database) as opened:
        yield opened


async def leading(schedulers: Iterable[ServiceProcess]) -> ServiceProcess | None:
    """The scheduler that says it leads; its log tells."""
    for process in schedulers:
        lines = process.log.read_text().splitlines()
        told = [line for line in lines if "leads with epoch" in line or "gave up" in line]
        if told and "no longer" not in told[-1] and "gave up" not in told[-1]:
            return process
    return None


def every_second(name: str, start: datetime, seconds: int) -> Schedule:
    schedule = s.schedule(name, cron="* * * * * *")
    schedule.start_time.FromDatetime(start)
    schedule.end_time.FromDatetime(start + timedelta(seconds=seconds))
    return schedule


def once(name: str, at: datetime) -> Schedule:
    schedule = s.schedule(name, cron="0 0 1 1 *")
    del schedule.include[:]
    schedule.include.add().at.FromDatetime(at)
    return schedule


async def fire_for(store: ScheduleStore, connection: asyncpg.Connection, seconds: int) -> datetime:
    """Make schedules of every second, from soon on; when they begin."""
    start = await soon(store)
    await make(store, connection, every_second("s0", start, seconds), SCHEDULES)
    assert await store.now() < start, "they were made too late to fire at each time"
    return start


async def soon(store: ScheduleStore) -> datetime:
    """A full second, in two or three."""
    return (await store.now() + timedelta(seconds=3)).replace(microsecond=0)


async def make(
    store: ScheduleStore, connection: asyncpg.Connection, first: Schedule, count: int
) -> None:
    """Make a schedule, and others that differ in their names only: all at once."""
    await store.create(d.NAMESPACE, first)
    await connection.execute(
        """
        INSERT INTO jobmesh.schedules
        SELECT (jsonb_populate_record(
            first, jsonb_build_object('uid', gen_random_uuid(), 'schedule_id', 's' || n))).*
        FROM jobmesh.schedules AS first, generate_series(1, $2 - 1) AS n
        WHERE first.schedule_id = $1
        """,
        first.schedule_id,
        count,
    )


async def fired(connection: asyncpg.Connection) -> int:
    """How many times have been dealt with."""
    return int(await connection.fetchval("SELECT count(*) FROM jobmesh.firings"))


async def into_the_middle(connection: asyncpg.Connection) -> None:
    """Wait until some of the times have been fired, and see that not all have."""
    expected = SCHEDULES * SECONDS
    some = 1 + 0.4 * expected * random.random()

    async def some_fired() -> bool:
        return await fired(connection) >= some

    await until(some_fired, SECONDS + ROOM, "some are fired")
    await asyncio.sleep(random.random())  # any moment will do, not only one just after a firing
    assert await fired(connection) < expected, "nothing is left to be fired"


async def require_each_once(
    connection: asyncpg.Connection, start: datetime, seconds: int, about: str
) -> None:
    """Exactly one job a (schedule, time), and none missing."""
    expected = SCHEDULES * seconds

    async def all_fired() -> bool:
        return await fired(connection) >= expected

    await until(all_fired, seconds + ROOM * 2, about)
    rows = await connection.fetch(
        """SELECT f.fire_time, f.outcome, j.schedule_id, j.job_id FROM jobmesh.firings f
           JOIN jobmesh.schedules s ON s.uid = f.schedule_uid
           LEFT JOIN jobmesh.jobs j ON j.job_id = f.job_id AND j.schedule_id = s.schedule_id"""
    )
    assert {row["outcome"] for row in rows} == {"SUBMITTED"}, about
    pairs = {(row["schedule_id"], row["fire_time"]) for row in rows}
    times = [start + timedelta(seconds=n) for n in range(seconds)]
    assert pairs == {(f"s{n}", time) for n in range(SCHEDULES) for time in times}, about
    assert len(rows) == expected
    jobs = await connection.fetchval("SELECT count(*) FROM jobmesh.jobs WHERE schedule_id <> ''")
    assert jobs == expected, about


@pytest.mark.timeout(300)
@pytest.mark.parametrize("number", ROUNDS)
@pytest.mark.parametrize("fault", ["kill", "freeze", "stop"])
async def test_each_time_fires_once_whatever_becomes_of_the_leader(
    fleet: Fleet, store: ScheduleStore, connection: asyncpg.Connection, fault: str, number: int
) -> None:
    start = await fire_for(store, connection, SECONDS)
    await into_the_middle(connection)
    leader = await until(lambda: leading(fleet.schedulers.values()), ROOM, "somebody leads")
    assert leader is not None
    if fault == "kill":
        await leader.kill()
    elif fault == "stop":
        assert await leader.terminate() == 0
    else:
        leader.freeze()
        others = [process for process in fleet.schedulers.values() if process is not leader]
        await until(lambda: leading(others), LEASE + ROOM, "another leads")
        leader.thaw()
    await require_each_once(connection, start, SECONDS, fault)
    latest = await latest_firing(connection)
    log.info("%s, round %d: the latest firing was %.2f s late", fault, number, latest)
    if FULL and fault in TAKEN_OVER_SECONDS:
        assert latest < TAKEN_OVER_SECONDS[fault]


async def latest_firing(connection: asyncpg.Connection) -> float:
    """Seconds by which the one that was latest was late."""
    late: timedelta = await connection.fetchval(
        "SELECT max(record_time - fire_time) FROM jobmesh.firings"
    )
    return late.total_seconds()


@pytest.mark.timeout(300)
@pytest.mark.parametrize("number", ROUNDS)
async def test_a_scheduler_whose_clock_is_off_by_minutes_fires_on_time(
    fleet: Fleet, store: ScheduleStore, connection: asyncpg.Connection, number: int
) -> None:
    rightful = list(fleet.schedulers.values())
    await asyncio.gather(fleet.start_scheduler("+300s"), fleet.start_scheduler("-300s"))
    wrong = [p for p in fleet.schedulers.values() if p not in rightful]
    await asyncio.gather(*(process.terminate() for process in rightful))
    start = await fire_for(store, connection, SECONDS)
    await into_the_middle(connection)  # some fire under this one, and some under the other
    first = await until(lambda: leading(wrong), ROOM, "one whose clock is off leads")
    assert first is not None
    await first.kill()  # the other one is off in the other direction
    await require_each_once(connection, start, SECONDS, f"clocks {number}")
    early = await connection.fetchval(
        """SELECT count(*) FROM jobmesh.firings WHERE record_time < fire_time
           OR record_time > fire_time + interval '30 s'"""
    )
    assert early == 0


@pytest.mark.timeout(180)
@pytest.mark.parametrize(
    "point", ["fire.locked", "fire.recorded", "fire.stored", "fire.after_commit"]
)
async def test_a_dispatcher_that_dies_in_the_middle_of_a_firing_loses_and_doubles_nothing(
    fleet: Fleet, store: ScheduleStore, connection: asyncpg.Connection, point: str
) -> None:
    seconds = 3
    start = await fire_for(store, connection, seconds)
    dying = fleet.dispatcher.child
    assert dying is not None
    await asyncio.wait_for(dying.wait(), ROOM * 2)
    fleet.dispatcher = fleet.new_dispatcher()
    await fleet.dispatcher.start()
    await require_each_once(connection, start, seconds, point)


@pytest.mark.timeout(120)
async def test_a_thousand_of_the_same_second_are_submitted_within_two(
    fleet: Fleet, store: ScheduleStore, connection: asyncpg.Connection
) -> None:
    at = await soon(store)
    await make(store, connection, once("s0", at), 1000)
    assert await store.now() < at, "they were made too late to be fired together"

    async def all_fired() -> bool:
        return await fired(connection) == 1000

    wait = (at - await store.now()).total_seconds()
    await until(all_fired, wait + ROOM, "all are fired")
    late: timedelta = await connection.fetchval(
        "SELECT max(create_time) - $1 FROM jobmesh.jobs_live", at
    )
    # Two seconds at rest; this machine does much else.
    assert timedelta() <= late < timedelta(seconds=4)


@pytest.mark.timeout(120)
async def test_after_an_outage_each_policy_makes_as_many_jobs_as_declared(
    fleet: Fleet, store: ScheduleStore, connection: asyncpg.Connection
) -> None:
    """The cursor is set back, which is what an outage of all schedulers comes to."""
    for name, policy in (("none", 1), ("one", 2), ("all", 3)):
        await store.create(d.NAMESPACE, s.schedule(name, cron="0 * * * *", catchup_policy=policy))
    for hours in (2, 48):
        now = await store.now()
        await connection.execute(
            "UPDATE jobmesh.schedules SET cursor_time = $1, wake_time = clock_timestamp()",
            now.replace(minute=0, second=0, microsecond=0) - timedelta(hours=hours, seconds=1),
        )
        await until(partial(_caught_up, connection, now), ROOM * 2, "caught up")
        made = {
            row["schedule_id"]: row["jobs"]
            for row in await connection.fetch(
                "SELECT schedule_id, count(*) AS jobs FROM jobmesh.jobs_live GROUP BY 1"
            )
        }
        # The full hour itself may have come less than a minute ago, and is then on time.
        assert made.get("none", 0) in (0, 1)
        assert made["one"] in (1, 2)
        assert made["all"] == hours + 1
    spread = await connection.fetchval(
        "SELECT max(create_time) - min(create_time) FROM jobmesh.jobs_live WHERE schedule_id='all'"
    )
    assert spread >= timedelta(seconds=3)
    missed = await connection.fetch("SELECT count FROM jobmesh.firings WHERE outcome = 'MISSED'")
    assert missed


async def _caught_up(connection: asyncpg.Connection, now: datetime) -> bool:
    return bool(
        await connection.fetchval(
            "SELECT bool_and(wake_time > clock_timestamp() + interval '2 s'"
            " AND cursor_time >= $1) FROM jobmesh.schedules",
            now - timedelta(hours=1, minutes=2),
        )
    )
