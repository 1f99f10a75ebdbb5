"""Jobs that do the worst end as they should, and their neighbours notice nothing."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import pytest_asyncio

from jobmesh import Client, JobHandle, JobInfo
from jobmesh.dev.ports import PortPool
from tests.acceptance.poison import app
from tests.support.fleet import Fleet, Member, new_fleet
from tests.support.servers import TestPostgres
from tests.support.wait import until

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.timeout(200)]

SETTINGS = {
    "JOBMESH_APP": "tests.acceptance.poison:app",
    "JOBMESH_SLOTS": "8",
    "JOBMESH_SESSION_GRACE_SECONDS": "0.5",
    "JOBMESH_CANCEL_GRACE_SECONDS": "0.3",
}
NEIGHBOURS = 200
TIMEOUT = 150.0


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def fleet(
    tmp_path_factory: pytest.TempPathFactory, ports: PortPool, postgres: TestPostgres
) -> AsyncIterator[Fleet]:
    directory = tmp_path_factory.mktemp("poison")
    async with (
        new_fleet(postgres, ports, directory, {}, SETTINGS, Fleet) as fleet,
        fleet,
        kept(fleet["runner-1"]),
    ):
        yield fleet


@asynccontextmanager
async def kept(member: Member) -> AsyncIterator[None]:
    """Start a process again whenever it has ended, as whoever runs it does."""

    async def keep() -> None:
        while True:
            await member.dead(timeout=3600)
            await member.start()

    keeping = asyncio.create_task(keep())
    try:
        yield
    finally:
        keeping.cancel()
        await asyncio.wait([keeping])


@pytest_asyncio.fixture(loop_scope="module")
async def mesh(fleet: Fleet) -> AsyncIterator[Client]:
    async with fleet.client() as client:
        yield client


async def ended(job: JobHandle, fleet: Fleet) -> JobInfo:
    """The whole job, once it is over."""
    try:
        return await job.wait(TIMEOUT)
    except TimeoutError:
        pytest.fail(f"{job.id} did not end: {await job.get()}\n{fleet.trouble()}")


async def neighbours(mesh: Client, number: int) -> list[JobHandle]:
    """Jobs that come one after the other, all the while."""
    jobs = []
    for n in range(number):
        jobs.append(await mesh.submit(app.tasks["neighbour"], number=n))
        await asyncio.sleep(0.01)
    return jobs


# What the job's reason is in the end, its error, and the failures that were charged.
HARMS_ITSELF = {
    "raise": ("FAILED", "RuntimeError", 2),
    "raise.long": ("FAILED", "RuntimeError", 2),
    "raise.deep": ("FAILED", "RuntimeError", 2),
    "segfault.process": ("FAILED", "HandlerProcessDied", 2),
    "memory.process": ("FAILED", "MemoryError", 2),
    "loop.process": ("TIMED_OUT", "TimeoutError", 2),
    "loop.thread": ("TIMED_OUT", "TimeoutError", 2),
    "deaf": ("TIMED_OUT", "TimeoutError", 2),
    "unserializable": ("NON_RETRYABLE", "NotSerializable", 1),
}
HARMS_ITS_RUNNER = {
    "segfault": ("CRASHED", "HandlerProcessDied", 0),
    "segfault.thread": ("CRASHED", "HandlerProcessDied", 0),
    "exit": ("CRASHED", "HandlerProcessDied", 0),
    "killed": ("CRASHED", "HandlerProcessDied", 0),
    "loop": ("TIMED_OUT", "TimeoutError", 2),
}


def check_death(dead: JobInfo, reason: str, error: str, failures: int) -> None:
    assert (dead.state, dead.reason.name) == ("DEAD", reason), dead
    assert dead.error is not None
    assert (dead.error.type, dead.failures) == (error, failures)
    assert len(dead.error.traceback.encode()) <= 64 << 10
    assert len(dead.error.message) <= 4000


async def check_lives(jobs: list[JobHandle], fleet: Fleet, crashes: int) -> None:
    for job in jobs:
        info = await ended(job, fleet)
        assert (info.state, info.reason.name) == ("SUCCEEDED", "COMPLETED"), info
        assert info.failures == 0
        assert info.crashes <= crashes


async def test_jobs_that_harm_themselves_die_and_their_neighbours_live(
    fleet: Fleet, mesh: Client
) -> None:
    coming = asyncio.create_task(neighbours(mesh, NEIGHBOURS))
    jobs = {kind: await mesh.submit(app.tasks[kind]) for kind in HARMS_ITSELF}
    for kind, job in jobs.items():
        check_death(await ended(job, fleet), *HARMS_ITSELF[kind])
    await check_lives(await coming, fleet, crashes=0)


@pytest.mark.parametrize("kind", HARMS_ITS_RUNNER)
async def test_a_job_that_harms_its_runner_dies_and_its_neighbours_live(
    fleet: Fleet, mesh: Client, kind: str
) -> None:
    coming = asyncio.create_task(neighbours(mesh, NEIGHBOURS))
    dead = await ended(await mesh.submit(app.tasks[kind]), fleet)
    check_death(dead, *HARMS_ITS_RUNNER[kind])
    await check_lives(await coming, fleet, crashes=1)  # taken down once, at the most


async def test_a_job_that_ends_its_runner_takes_long_neighbours_down_once(
    fleet: Fleet, mesh: Client, tmp_path: Path
) -> None:
    """It is tried apart from then on; they go on in their second attempt while it dies."""
    enough = tmp_path / "enough"
    beside = [await mesh.submit(app.tasks["long"], until=str(enough)) for _ in range(4)]
    await until(lambda: all_run(beside), TIMEOUT, "the neighbours run")
    before = fleet["runner-1"].pid
    dead = await ended(await mesh.submit(app.tasks["exit"]), fleet)
    assert (dead.reason.name, dead.crashes) == ("CRASHED", 4)
    assert fleet["runner-1"].pid != before
    enough.touch()
    for job in beside:
        info = await ended(job, fleet)
        assert (info.state, info.attempt, info.crashes) == ("SUCCEEDED", 2, 1), info


async def all_run(jobs: list[JobHandle], attempt: int = 1) -> bool:
    infos = [await job.get() for job in jobs]
    return all(info.start_time is not None and info.attempt == attempt for info in infos)


async def test_a_runner_that_is_killed_costs_its_jobs_seconds(
    fleet: Fleet, mesh: Client, tmp_path: Path
) -> None:
    """Nobody is to blame: they all run again at once, side by side, and one start clears them."""
    enough = tmp_path / "enough"
    jobs = [await mesh.submit(app.tasks["long"], until=str(enough)) for _ in range(6)]
    await until(lambda: all_run(jobs), TIMEOUT, "the jobs run")
    os.kill(fleet["runner-1"].pid, signal.SIGKILL)
    await until(lambda: all_run(jobs, attempt=2), TIMEOUT, "the jobs run again, side by side")
    enough.touch()
    for job in jobs:
        info = await ended(job, fleet)
        assert (info.state, info.attempt, info.crashes) == ("SUCCEEDED", 2, 1), info


async def test_a_dependency_that_is_down_for_ten_seconds_buries_nothing(
    fleet: Fleet, mesh: Client
) -> None:
    back = time.time() + 10
    jobs = [await mesh.submit(app.tasks["dependent"], until=back) for _ in range(40)]
    infos = [await ended(job, fleet) for job in jobs]
    assert {(info.state, info.reason.name) for info in infos} == {("SUCCEEDED", "COMPLETED")}
    assert all(1 <= info.failures <= 4 for info in infos)
