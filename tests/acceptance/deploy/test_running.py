"""The commands of the compose file and of the units start a mesh that runs jobs."""

from __future__ import annotations

import asyncio
import operator
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import asyncpg
import grpc.aio
import pytest

from jobmesh.dev.ports import PortPool
from jobmesh.v1 import job_pb2
from jobmesh.v1 import job_service_pb2 as pb
from jobmesh.v1.job_service_pb2_grpc import JobServiceStub
from tests.acceptance.deploy import launch
from tests.support import scrape
from tests.support.servers import TestPostgres
from tests.support.wait import until

if TYPE_CHECKING:
    from jobmesh.v1.job_service_pb2_grpc import JobServiceAsyncStub

CALL_TIMEOUT = 30.0
CALLERS = 8


@pytest.fixture
async def empty_database(postgres: TestPostgres) -> AsyncIterator[str]:
    """A database that nobody has migrated."""
    name = "deployed"
    connection = await asyncpg.connect(postgres.dsn("postgres"), timeout=20, command_timeout=20)
    await connection.execute(f"CREATE DATABASE {name}")
    await connection.close(timeout=5)
    yield postgres.dsn(name)
    await postgres.drop(name)


@asynccontextmanager
async def plain_channel(address: str) -> AsyncIterator[JobServiceAsyncStub]:
    """A client that does nothing by itself: no retries, no balancing."""
    options = [("grpc.enable_retries", 0)]
    async with grpc.aio.insecure_channel(address, options) as channel:
        await asyncio.wait_for(channel.channel_ready(), CALL_TIMEOUT)
        yield JobServiceStub(channel)


async def run_hello(jobs: JobServiceAsyncStub) -> job_pb2.Job:
    payload = job_pb2.Payload(data=b'{"name":"Ada"}', content_type="application/json")
    request = pb.SubmitJobRequest(
        job=job_pb2.JobSpec(type="hello", payload=payload), request_id="hello-ada"
    )
    answer = await jobs.SubmitJob(request, timeout=CALL_TIMEOUT, wait_for_ready=True)
    wait = pb.WaitJobRequest(job_id=answer.job.job_id)
    job: job_pb2.Job = await jobs.WaitJob(wait, timeout=CALL_TIMEOUT)
    return job


@pytest.mark.timeout(150)
async def test_the_compose_file_runs_jobs_through_its_proxy_and_loses_no_call(
    empty_database: str, nats_url: str, ports: PortPool, tmp_path: Path
) -> None:
    launches = launch.of_compose()
    edge, admin = ports.take(), ports.take()
    async with (
        launch.running(launches, empty_database, nats_url, ports, tmp_path),
        launch.envoy(launches, edge, admin, tmp_path),
        plain_channel(f"127.0.0.1:{edge}") as jobs,
    ):
        job = await run_hello(jobs)
        assert job.state == job_pb2.JOB_STATE_SUCCEEDED
        gateway = next(each for each in launches if each.service == "gateway")
        async with called_all_the_time(jobs, job.job_id) as calls:
            await answered(calls, 100)
            await gateway.running.kill()
            await until(lambda: is_left_out(gateway, admin), CALL_TIMEOUT)
            await answered(calls, 100)


@asynccontextmanager
async def called_all_the_time(jobs: JobServiceAsyncStub, job_id: str) -> AsyncIterator[list[int]]:
    """Read the job again and again, by several callers: their calls. Any failed one raises."""
    calls, over = [0] * CALLERS, asyncio.Event()

    async def caller(number: int) -> None:
        while not over.is_set():
            await jobs.GetJob(pb.GetJobRequest(job_id=job_id), timeout=CALL_TIMEOUT)
            calls[number] += 1

    async with asyncio.TaskGroup() as group:
        for number in range(CALLERS):
            group.create_task(caller(number))
        yield calls
        over.set()


async def answered(calls: list[int], more: int) -> None:
    """Wait until each caller has had so many more answers."""
    enough = [count + more for count in calls]
    await until(lambda: all(map(operator.ge, calls, enough)), CALL_TIMEOUT)


async def is_left_out(gateway: launch.Launch, admin: int) -> bool:
    """Whether the proxy has noticed that it is gone."""
    told = await scrape.page(f"127.0.0.1:{admin}", "/clusters")
    return f"::{gateway.address}::health_flags::/failed_active_hc" in told


@pytest.mark.timeout(150)
async def test_the_units_run_jobs_and_stop_when_told(
    empty_database: str, nats_url: str, ports: PortPool, tmp_path: Path
) -> None:
    launches = launch.of_units(tmp_path)
    async with launch.running(launches, empty_database, nats_url, ports, tmp_path):
        gateway = next(each for each in launches if each.service == "gateway")
        async with plain_channel(gateway.address) as jobs:
            job = await run_hello(jobs)
        assert job.state == job_pb2.JOB_STATE_SUCCEEDED
        for each in reversed(launches):
            if each.service != "migrate":
                assert await each.running.terminate() == 0, each.running.log.read_text()
