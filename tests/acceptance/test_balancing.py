"""Two gateways and two dispatchers share the calls, and one that dies, stops or cannot work costs
no caller a failure.
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from functools import partial
from typing import Any

import pytest
import pytest_asyncio
from grpc_health.v1 import health_pb2, health_pb2_grpc

import jobmesh
from jobmesh.channels import open_channel
from jobmesh.dev.ports import PortPool
from tests.acceptance.handlers import note
from tests.acceptance.load import Load, under_load
from tests.support.fleet import Fleet, Member, new_fleet, via
from tests.support.proxy import TcpProxy
from tests.support.servers import TestPostgres
from tests.support.wait import until

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.timeout(100)]

COUNTS = {"gateway": 2, "dispatcher": 2}
SETTINGS = {
    "JOBMESH_APP": "tests.acceptance.handlers:app",
    "JOBMESH_SESSION_LEASE_SECONDS": "5",
}
SERVED = "jobmesh_grpc_requests_total"
ATTACHED = "jobmesh_runners_attached"
SENT_ON_SOON = {"JOBMESH_RUNNER_STREAM_SECONDS": "1"}
LIST = "DispatchService/FindJobs"
SERVING = health_pb2.HealthCheckResponse.SERVING
NOT_SERVING = health_pb2.HealthCheckResponse.NOT_SERVING
# A call that meets a dead one is repeated elsewhere; the rest is a machine with two busy cores.
SLOWEST_SECONDS = 8.0


class Balanced(Fleet):
    """`database` is the first dispatcher's way to PostgreSQL, `mesh` the first gateway's ways to
    the dispatchers; the test cuts them.
    """

    database: TcpProxy
    mesh: list[TcpProxy]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def shared(
    tmp_path_factory: pytest.TempPathFactory, ports: PortPool, postgres: TestPostgres
) -> AsyncIterator[Balanced]:
    directory = tmp_path_factory.mktemp("fleet")
    async with AsyncExitStack() as stack:
        made = await stack.enter_async_context(
            new_fleet(postgres, ports, directory, COUNTS, SETTINGS, Balanced)
        )
        server = made.postgres.rpartition("/")[0].rpartition(":")[2]
        made.database = await stack.enter_async_context(TcpProxy("127.0.0.1", int(server)))
        made.mesh = [
            await stack.enter_async_context(TcpProxy("127.0.0.1", dispatcher.port))
            for dispatcher in made.of("dispatcher")
        ]
        made["dispatcher-1"].give({"JOBMESH_POSTGRES_DSN": via(made.postgres, made.database.port)})
        made["gateway-1"].give(
            {"JOBMESH_DISPATCHERS": ",".join(proxy.address for proxy in made.mesh)}
        )
        await stack.enter_async_context(made)
        yield made


@pytest_asyncio.fixture(loop_scope="module")
async def fleet(shared: Balanced) -> Balanced:
    """Each gateway reaches both dispatchers, whatever an earlier test has cut."""
    for gateway in shared.of("gateway"):
        await until(partial(reaches_both, shared, gateway), 30, shared.trouble, interval=0.1)
    return shared


async def reaches_both(fleet: Balanced, gateway: Member) -> bool:
    dispatchers = fleet.of("dispatcher")
    before = [await served(dispatcher, LIST) for dispatcher in dispatchers]
    async with jobmesh.connect(gateway.address) as mesh:
        for _ in range(2 * len(dispatchers)):
            _ = [job async for job in mesh.list(limit=1)]
    after = [await served(dispatcher, LIST) for dispatcher in dispatchers]
    return all(now > then for now, then in zip(after, before, strict=True))


async def served(member: Member, method: str) -> float:
    """Calls of a service, or of one of its methods, that were answered well."""
    return sum(
        value
        for labels, value in await member.metrics(SERVED)
        if labels["code"] == "OK" and f".{method}" in labels["method"]
    )


async def health(member: Member) -> int:
    """What the process says of itself by grpc.health.v1."""
    channel = open_channel(member.address, health_check=False)
    try:
        stub: Any = health_pb2_grpc.HealthStub(channel)  # type: ignore[no-untyped-call]
        request = health_pb2.HealthCheckRequest(service="")
        return int((await stub.Check(request, timeout=5)).status)
    finally:
        await channel.close(None)


async def says(member: Member, status: int) -> bool:
    return await health(member) == status


def require_no_failure(load: Load) -> None:
    assert not load.failed, load
    assert load.slowest < SLOWEST_SECONDS, load


async def test_both_of_each_serve_calls(fleet: Balanced) -> None:
    async with fleet.client() as mesh, under_load(mesh) as load:
        await load.more(200)
    for member in fleet.of("gateway"):
        assert await served(member, "JobService") >= 20, member.name
    for member in fleet.of("dispatcher"):
        assert await served(member, "DispatchService") >= 20, member.name
    require_no_failure(load)


@pytest.mark.parametrize("victim", ["gateway-1", "dispatcher-2"])
async def test_one_that_is_killed_fails_no_call(fleet: Balanced, victim: str) -> None:
    # What gRPC repeats by itself is enough: the client has no patience of its own.
    async with fleet.client(patience=0) as mesh, under_load(mesh) as load:
        await load.more(30)
        await fleet[victim].kill()
        await load.more(100)
        await fleet.restart(victim)
        service = "JobService" if victim.startswith("gateway") else "DispatchService"
        await until(lambda: serves_load(fleet[victim], service), 20, lambda: str(load))
    require_no_failure(load)


async def serves_load(member: Member, service: str) -> bool:
    return await served(member, service) >= 10


async def test_a_gateway_that_stops_fails_no_call(fleet: Balanced) -> None:
    async with fleet.client(patience=0) as mesh, under_load(mesh) as load:
        await load.more(30)
        assert await fleet["gateway-2"].terminate() == 0
        await load.more(50)
        await fleet.restart("gateway-2")
        await load.more(50)
    require_no_failure(load)


async def test_a_dispatcher_without_database_says_so_and_is_left_out_until_it_is_back(
    fleet: Balanced,
) -> None:
    cut_off, other = fleet["dispatcher-1"], fleet["dispatcher-2"]
    pid = cut_off.pid
    async with fleet.client() as mesh, under_load(mesh) as load:
        await load.more(30)
        fleet.database.cut()
        await until(lambda: says(cut_off, NOT_SERVING), 15, fleet.trouble, interval=0.1)
        before = await served(cut_off, "DispatchService")
        elsewhere = await served(other, "DispatchService")
        await load.more(100)
        # The calls that were on their way when it said so, and no more.
        assert await served(cut_off, "DispatchService") <= before + 3
        assert await served(other, "DispatchService") > elsewhere
        job = await mesh.submit(note, number=7)
        assert await job.result(20) == 7  # also if the runner has to move first
        fleet.database.restore()
        await until(lambda: says(cut_off, SERVING), 10, fleet.trouble, interval=0.1)
        await until(lambda: used_again(cut_off, before), 10, lambda: str(load), interval=0.1)
    require_no_failure(load)
    assert cut_off.pid == pid
    os.kill(pid, 0)


async def used_again(member: Member, before: float) -> bool:
    return await served(member, "DispatchService") >= before + 20


async def test_a_runner_is_sent_on_so_that_no_dispatcher_is_left_without(fleet: Balanced) -> None:
    """What it runs meanwhile notices nothing."""
    names = [dispatcher.name for dispatcher in fleet.of("dispatcher")]
    await fleet.restart(*names, **SENT_ON_SOON)
    try:
        async with fleet.client() as mesh:
            jobs = await mesh.submit_many([(note, {"millis": 2000})] * 8)
            for dispatcher in fleet.of("dispatcher"):
                await until(partial(has_runner, dispatcher), 30, fleet.trouble, interval=0.1)
            infos = [await job.wait(30) for job in jobs]
        assert {(info.state, info.attempt, info.crashes) for info in infos} == {("SUCCEEDED", 1, 0)}
    finally:
        await fleet.restart(*names)


async def has_runner(dispatcher: Member) -> bool:
    return await dispatcher.metric(ATTACHED) == 1


async def test_a_gateway_without_dispatchers_fails_no_call(fleet: Balanced) -> None:
    async with fleet.client() as mesh, under_load(mesh) as load:
        await load.more(30)
        for link in fleet.mesh:
            link.cut()
        await load.more(60)
        for link in fleet.mesh:
            link.restore()
        await load.more(30)
    require_no_failure(load)
