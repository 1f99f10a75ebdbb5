"""Without NATS the mesh takes jobs, without PostgreSQL it says so; and it goes on by itself."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable

import pytest
import pytest_asyncio

import jobmesh
from jobmesh.client import JobHandle
from jobmesh.dev.ports import PortPool
from jobmesh.dev.postgres import EmbeddedPostgres
from jobmesh.errors import JobmeshError, Unavailable
from tests.acceptance.handlers import note
from tests.support.fleet import Fleet, own_nats, own_postgres
from tests.support.wait import until

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.timeout(100)]

COUNTS = {"gateway": 2, "dispatcher": 2}
SETTINGS = {
    "JOBMESH_APP": "tests.acceptance.handlers:app",
    "JOBMESH_SESSION_LEASE_SECONDS": "3",
}
AT_ONCE_SECONDS = 3.0
BACK_SECONDS = 5.0
# Long enough for dispatchers to say that they do not serve, and for leases to be over if anybody
# counted them.
OUTAGE_SECONDS = 7.0

Call = Callable[[], Awaitable[object]]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def postgres_server(ports: PortPool) -> AsyncIterator[EmbeddedPostgres]:
    async with own_postgres(ports) as server:
        yield server


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def fleet(
    tmp_path_factory: pytest.TempPathFactory, ports: PortPool, postgres_server: EmbeddedPostgres
) -> AsyncIterator[Fleet]:
    directory = tmp_path_factory.mktemp("fleet")
    async with (
        own_nats(ports) as nats,
        Fleet(directory, ports, postgres_server.dsn(), nats, COUNTS, SETTINGS) as fleet,
    ):
        yield fleet


def pids(fleet: Fleet) -> dict[str, int]:
    for member in fleet.members.values():
        assert member.running, member.name
    return {member.name: member.pid for member in fleet.members.values()}


async def test_without_nats_jobs_are_taken_and_run_once_it_is_back(fleet: Fleet) -> None:
    before = pids(fleet)
    async with fleet.client(patience=0) as mesh:
        fleet.nats.kill()
        assert fleet.nats.child is not None
        await fleet.nats.child.wait()
        jobs = [await taken(mesh, number) for number in range(30)]
        # Those that were stored by the dispatcher which has the runner went straight to it.
        await until(lambda: some_succeeded(jobs), 10)
        await fleet.nats.start()
        assert [await job.result(20) for job in jobs] == list(range(30))
    assert pids(fleet) == before


async def some_succeeded(jobs: list[JobHandle]) -> bool:
    return any([(await job.get()).state == "SUCCEEDED" for job in jobs])


async def taken(mesh: jobmesh.Client, number: int) -> JobHandle:
    began = time.monotonic()
    job = await mesh.submit(note, number=number)
    assert time.monotonic() - began < AT_ONCE_SECONDS
    return job


async def test_without_postgresql_calls_fail_at_once_and_work_again_soon_after(
    fleet: Fleet, postgres_server: EmbeddedPostgres
) -> None:
    before = pids(fleet)
    async with fleet.client(patience=0) as mesh:
        job = await mesh.submit(note, number=1)
        assert await job.result(20) == 1
        long = await mesh.submit(note, number=2, millis=int(OUTAGE_SECONDS * 1000 / 2))
        await until(lambda: is_running(long), 10)
        assert postgres_server.child is not None
        postgres_server.kill()
        await postgres_server.child.wait()
        calls: dict[str, Call] = {
            "submit": lambda: mesh.submit(note, number=3),
            "get": job.get,
            "wait": lambda: long.wait(20),
            "cancel": job.cancel,
            "queue": lambda: mesh.queues.get("default"),
            "list": lambda: anext(mesh.list()),
        }
        await refused_for(OUTAGE_SECONDS, calls)
        await postgres_server.start()
        back = time.monotonic()
        await until(lambda: works(mesh), BACK_SECONDS, fleet.trouble, interval=0.1)
        assert await (await mesh.submit(note, number=4)).result(20) == 4
        assert time.monotonic() - back < 2 * BACK_SECONDS
        info = await long.wait(20)
        # It ended while nobody could write that down, and nobody ran it again for that.
        assert (info.result, info.attempt) == (2, 1)
    assert pids(fleet) == before


async def is_running(job: JobHandle) -> bool:
    info = await job.get()
    assert info.start_time is not None, info.state
    return True


async def works(mesh: jobmesh.Client) -> bool:
    try:
        await mesh.submit(note, number=0)
    except Unavailable:
        return False
    return True


async def refused_for(seconds: float, calls: dict[str, Call]) -> None:
    """All calls, again and again, are refused at once, with the reason."""
    ends = time.monotonic() + seconds
    while time.monotonic() < ends:
        await asyncio.gather(*(refused(name, call) for name, call in calls.items()))


async def refused(name: str, call: Call) -> None:
    began = time.monotonic()
    with pytest.raises(JobmeshError) as raised:
        await call()
    seconds = time.monotonic() - began
    assert isinstance(raised.value, Unavailable), (name, raised.value)
    assert raised.value.reason == "BACKEND_UNAVAILABLE", (name, raised.value)
    assert seconds < AT_ONCE_SECONDS, (name, seconds)
