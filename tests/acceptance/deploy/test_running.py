"""The commands of the compose file and of the units start a mesh that runs jobs."""

from __future__ import annotations

import asyncio
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
from tests.support.servers import TestPostgres

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
    edge = ports.take()
    async with (
        launch.running(launches, empty_database, nats_url, ports, tmp_path),
        launch.envoy(launches, edge, ports.take(), tmp_path),
        plain_channel(f"127.0.0.1:{edge}") as jobs,
    ):
        job = await run_hello(jobs)
        assert job.state == job_pb2.JOB_STATE_SUCCEEDED
        gateway = next(each for each in launches if each.service == "gateway")
        answered = await calls_while_killing(jobs, job.job_id, gateway)
    assert answered > CALLERS


async def calls_while_killing(jobs: JobServiceAsyncStub, job_id: str, victim: launch.Launch) -> int:
    """Read the job all the time, kill a gateway in the middle; any failed call raises."""
    answered = 0
    over = asyncio.Event()

    async def caller() -> None:
        nonlocal answered
        while not over.is_set():
            await jobs.GetJob(pb.GetJobRequest(job_id=job_id), timeout=CALL_TIMEOUT)
            answered += 1

    async with asyncio.TaskGroup() as group:
        for _ in range(CALLERS):
            group.create_task(caller())
        await asyncio.sleep(0.5)
        await victim.running.kill()
        await asyncio.sleep(3.0)  # longer than the proxy takes to notice
        over.set()
    return answered


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
