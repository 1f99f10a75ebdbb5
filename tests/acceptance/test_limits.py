"""Limits of queues and of runners hold over dispatchers: what may not run waits, and what may does
not wait for it.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta

import asyncpg
import pytest
import pytest_asyncio

from jobmesh.client import Client
from jobmesh.dev.ports import PortPool
from tests.acceptance.handlers import COUNTED_DSN, COUNTED_TABLE, counted, note, rare
from tests.support.fleet import Fleet, connected, new_fleet
from tests.support.servers import TestPostgres
from tests.support.wait import until

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.timeout(100)]

COUNTS = {"dispatcher": 2, "runner": 2}
HERE = "tests.acceptance.handlers"
ALL_APPS = f"{HERE}:app,{HERE}:counted_app,{HERE}:rare_app"
WITHOUT_RARE = f"{HERE}:app,{HERE}:counted_app"
ONLY_RARE = f"{HERE}:rare_app"
LIMIT = 3
JOBS = 300
MANY = 1000
SOON = timedelta(seconds=2)
SAMPLE_SECONDS = 0.005
REFILL_SECONDS = 0.1


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def fleet(
    tmp_path_factory: pytest.TempPathFactory, ports: PortPool, postgres: TestPostgres
) -> AsyncIterator[Fleet]:
    directory = tmp_path_factory.mktemp("fleet")
    await postgres.clone("counted")
    try:
        async with connected(postgres.dsn("counted")) as connection:
            await connection.execute(COUNTED_TABLE)
        settings = {"JOBMESH_APP": ALL_APPS, COUNTED_DSN: postgres.dsn("counted")}
        async with new_fleet(postgres, ports, directory, COUNTS, settings, Fleet) as fleet:
            for number in (1, 2):  # one runner for each dispatcher
                dispatcher = fleet[f"dispatcher-{number}"].address
                fleet[f"runner-{number}"].give({"JOBMESH_DISPATCHERS": dispatcher})
            fleet["runner-1"].give({"JOBMESH_APP": WITHOUT_RARE})
            async with fleet:
                yield fleet
    finally:
        await postgres.drop("counted")


@asynccontextmanager
async def sampled(fleet: Fleet, queue: str) -> AsyncIterator[Counter[int]]:
    """How often how many jobs of the queue were seen to be running, all the while."""
    seen: Counter[int] = Counter()

    async def sample() -> None:
        async with connected(fleet.postgres) as connection:
            while True:
                running = await connection.fetchval(
                    """SELECT count(*) FROM jobmesh.jobs_live
                       WHERE queue = $1 AND state IN ('RUNNING', 'CANCELLING')""",
                    queue,
                )
                seen[running] += 1
                await asyncio.sleep(SAMPLE_SECONDS)

    sampling = asyncio.create_task(sample())
    try:
        yield seen
    finally:
        sampling.cancel()
        await asyncio.gather(sampling, return_exceptions=True)


async def depth(fleet: Fleet, queue: str) -> dict[str, int]:
    """Jobs of the queue by state and, of those that are held, by why."""
    rows = await fleet.fetch(
        """SELECT state || coalesce(' ' || hold_reason, '') AS state, count(*) AS jobs
           FROM jobmesh.jobs WHERE queue = $1 GROUP BY 1""",
        queue,
    )
    return {row["state"]: row["jobs"] for row in rows}


async def all_in(fleet: Fleet, queue: str, state: str, jobs: int) -> bool:
    found = await depth(fleet, queue)
    assert found == {state: jobs}
    return True


async def test_a_limit_of_three_is_never_passed(fleet: Fleet) -> None:
    async with fleet.client() as mesh:
        await mesh.queues.update("few", max_running=LIMIT)
        async with sampled(fleet, "few") as seen:
            few = mesh.with_options(queue="few")
            await few.submit_many([(counted, {"millis": 10})] * JOBS)
            await until(lambda: all_in(fleet, "few", "SUCCEEDED", JOBS), 60, interval=0.1)
    assert max(seen) == LIMIT, seen
    async with connected(fleet["runner-1"].setting(COUNTED_DSN)) as own:
        assert await own.fetchval("SELECT count(DISTINCT job_id) FROM runs") == JOBS
        assert await own.fetchval("SELECT count(*) FROM runs WHERE ended IS NOT NULL") == JOBS
        assert await most_at_once(own) == LIMIT
    runners = await fleet.fetch("SELECT DISTINCT runner_id FROM jobmesh.jobs WHERE queue = 'few'")
    assert {row["runner_id"] for row in runners} == {"runner-1", "runner-2"}
    assert await fleet.value("SELECT running FROM jobmesh.queue_slots WHERE queue = 'few'") == 0


async def most_at_once(own: asyncpg.Connection) -> int:
    """By what the handlers wrote down themselves."""
    most: int = await own.fetchval(
        """SELECT max(together) FROM (
               SELECT count(*) AS together FROM runs one
               JOIN runs other ON other.begun <= one.begun AND one.begun < other.ended
               GROUP BY one.job_id, one.attempt
           ) AS counts"""
    )
    return most


async def test_a_paused_queue_starts_nothing_and_goes_on_when_resumed(fleet: Fleet) -> None:
    async with fleet.client() as mesh:
        paused = mesh.with_options(queue="paused")
        running = await paused.submit(note, millis=1500)
        await until(lambda: all_in(fleet, "paused", "RUNNING", 1), 10)
        assert (await mesh.queues.pause("paused", note="a test")).dispatch_paused
        jobs = await paused.submit_many([(note, {"number": number}) for number in range(40)])
        assert (await running.wait(20)).state == "SUCCEEDED"  # what runs goes on
        # Other queues go on: as many of their jobs run from start to end meanwhile.
        others = await mesh.submit_many([(note, {"millis": 5})] * 100)
        for other in others:
            assert (await other.wait(20)).state == "SUCCEEDED"
        assert await waiting(fleet) == 40
        await mesh.queues.resume("paused")
        assert [await job.result(20) for job in jobs] == list(range(40))


async def waiting(fleet: Fleet) -> int:
    """Jobs of the paused queue that never started."""
    count: int = await fleet.value(
        """SELECT count(*) FROM jobmesh.jobs
           WHERE queue = 'paused' AND state = 'QUEUED' AND attempt = 0"""
    )
    return count


@pytest.mark.parametrize(
    ("app", "queue"), [(ONLY_RARE, "crowd"), (ALL_APPS, "alone")], ids=["only-it", "both-types"]
)
async def test_a_type_that_one_runner_knows_does_not_wait_for_a_crowd_of_others(
    fleet: Fleet, app: str, queue: str
) -> None:
    """In the queue of the crowd, by a runner with nothing else to do; and by one of the crowd's."""
    if app != ALL_APPS:
        await fleet.restart("runner-2", JOBMESH_APP=app)
    try:
        async with fleet.client() as mesh:
            waited = []
            async with crowded(fleet, mesh):
                for _ in range(3):
                    job = await mesh.with_options(queue=queue).submit(rare)
                    info = await job.wait(30)
                    assert info.result == "runner-2"
                    assert info.start_time is not None
                    assert info.create_time is not None
                    waited.append(info.start_time - info.create_time)
                    assert await unfinished(fleet, info.start_time) > MANY // 4
            # One of them may have met a machine that did something else.
            assert sorted(waited)[1] < SOON, waited
            await all_end(fleet)
    finally:
        if app != ALL_APPS:
            await fleet.restart("runner-2", JOBMESH_APP=ALL_APPS)


@asynccontextmanager
async def crowded(fleet: Fleet, mesh: Client) -> AsyncIterator[None]:
    """Meanwhile `MANY` jobs run or wait in the crowd's queue: those that ended are replaced."""
    crowd = mesh.with_options(queue="crowd")

    async def refill() -> None:
        missing = MANY - await left(fleet)
        await crowd.submit_many([(note, {"millis": 80})] * missing)

    async def keep_full() -> None:
        while True:
            await asyncio.sleep(REFILL_SECONDS)
            await refill()

    await refill()
    async with asyncio.TaskGroup() as group:
        keeping = group.create_task(keep_full())
        yield
        keeping.cancel()


async def left(fleet: Fleet) -> int:
    count: int = await fleet.value("SELECT count(*) FROM jobmesh.jobs_live WHERE queue = 'crowd'")
    return count


async def unfinished(fleet: Fleet, at: object) -> int:
    """Jobs of the crowd that had not ended at that time."""
    count: int = await fleet.value(
        """SELECT count(*) FROM jobmesh.jobs
           WHERE queue = 'crowd' AND type = 'note' AND (end_time IS NULL OR end_time > $1)""",
        at,
    )
    return count


async def all_end(fleet: Fleet) -> None:
    async def ended() -> bool:
        assert await left(fleet) == 0
        return True

    await until(ended, 60, fleet.trouble, interval=0.1)
