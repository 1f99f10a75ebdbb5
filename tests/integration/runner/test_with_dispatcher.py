"""The runner with a real dispatcher, on PostgreSQL and NATS."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from hashlib import sha256
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from jobmesh.channels import open_channel
from jobmesh.ids import new_id
from jobmesh.server.grpc_server import GrpcServer
from jobmesh.v1.dispatch_service_pb2 import JobSubmission, ReadJobsRequest, SubmitJobsRequest
from jobmesh.v1.dispatch_service_pb2_grpc import DispatchServiceStub
from jobmesh.v1.job_pb2 import Job, JobReason, JobState, JobView
from jobmesh_dispatcher.config import DispatcherConfig
from jobmesh_dispatcher.main import parts as dispatcher_parts
from tests.integration.runner.conftest import Start
from tests.support.wait import until

if TYPE_CHECKING:
    from jobmesh.v1.dispatch_service_pb2_grpc import DispatchServiceAsyncStub

SUCCEEDED, RUNNING, DEAD = (
    JobState.JOB_STATE_SUCCEEDED,
    JobState.JOB_STATE_RUNNING,
    JobState.JOB_STATE_DEAD,
)
TIMEOUT = 20.0


class Mesh:
    """A dispatcher, asked the way a gateway asks it."""

    def __init__(self, address: str, stub: DispatchServiceAsyncStub) -> None:
        self.peer: Any = SimpleNamespace(address=address)
        self._stub = stub

    async def submit(self, task: str, **arguments: object) -> str:
        data = msgspec.json.encode(arguments)
        submission = JobSubmission(
            job_id=new_id(), namespace="default", digest=sha256(data).digest()
        )
        submission.job.type, submission.job.queue, submission.job.priority = task, "default", 4
        submission.job.payload.data = data
        submission.job.payload.content_type = "application/json"
        submission.job.retry_policy.max_attempts = 1
        request = SubmitJobsRequest(operation_id=new_id(), submissions=[submission], atomic=True)
        answer = await self._stub.SubmitJobs(request, timeout=TIMEOUT)
        assert answer.results[0].WhichOneof("result") == "ok", answer
        return submission.job_id

    async def read(self, job_id: str) -> Job:
        request = ReadJobsRequest(namespace="default", job_ids=[job_id], view=JobView.JOB_VIEW_FULL)
        return (await self._stub.ReadJobs(request, timeout=TIMEOUT)).jobs[0]

    async def reaches(self, job_id: str, state: JobState.ValueType, timeout: float = 20.0) -> Job:
        async def is_there() -> bool:
            return (await self.read(job_id)).state == state

        await until(is_there, timeout, f"state {JobState.Name(state)}", 0.05)
        return await self.read(job_id)


@pytest.fixture
async def mesh(database: str, nats_url: str) -> AsyncIterator[Mesh]:
    config = DispatcherConfig(postgres_dsn=database, nats_url=nats_url, port=0, http_port=0)
    parts = dispatcher_parts(config)
    async with AsyncExitStack() as stack:
        for part in parts:
            stack.push_async_callback(part.stop)
            await part.start()
        address = next(part.address for part in parts if isinstance(part, GrpcServer))
        channel = open_channel(address)
        stack.push_async_callback(channel.close, None)
        yield Mesh(address, DispatchServiceStub(channel))


async def test_jobs_are_run_and_recorded(mesh: Mesh, runner: Start) -> None:
    await runner(mesh.peer).start()
    good, bad = await mesh.submit("add", a=2**60), await mesh.submit("fail", text="broken")

    done = await mesh.reaches(good, SUCCEEDED)
    assert done.result.data == str(2**60 + 1).encode()
    assert done.attempt == 1
    assert done.start_time.ToNanoseconds() <= done.end_time.ToNanoseconds()
    dead = await mesh.reaches(bad, DEAD)
    assert dead.reason == JobReason.JOB_REASON_FAILED
    assert (dead.error.type, dead.error.message) == ("ValueError", "broken")
    assert "Traceback" in dead.error.traceback


async def test_many_jobs_leave_nothing_behind(mesh: Mesh, runner: Start) -> None:
    process = runner(mesh.peer, slots=8)
    await process.start()
    jobs = await asyncio.gather(*(mesh.submit("add", a=n) for n in range(300)))
    for number, job_id in enumerate(jobs):
        done = await mesh.reaches(job_id, SUCCEEDED)
        assert done.result.data == str(number + 1).encode()
    assert await process.terminate() == 0


async def test_a_killed_runners_job_goes_on_elsewhere_from_its_checkpoint(
    mesh: Mesh, runner: Start
) -> None:
    first = runner(mesh.peer)
    await first.start()
    job_id = await mesh.submit("checkpoint.once")

    async def has_checkpoint() -> bool:
        return bool((await mesh.read(job_id)).checkpoint.data)

    await until(has_checkpoint, 20.0, "a checkpoint", 0.05)
    await first.kill()
    await runner(mesh.peer).start()
    done = await mesh.reaches(job_id, SUCCEEDED)
    assert msgspec.json.decode(done.result.data) == {"attempt": 2, "restored": {"by": 1}}
    assert (done.runner_id, done.failures) == ("runner-2", 0)


async def test_a_frozen_runner_is_refused_and_becomes_another_session(
    mesh: Mesh, runner: Start
) -> None:
    """Its job is run by another one; what it still says of it changes nothing."""
    first = runner(mesh.peer)
    await first.start()
    job_id = await mesh.submit("checkpoint.once")
    await mesh.reaches(job_id, RUNNING)
    await until(lambda: first.log.exists() and b"attached" in first.log.read_bytes())
    first.freeze()
    await runner(mesh.peer).start()
    done = await mesh.reaches(job_id, SUCCEEDED, 40.0)
    assert done.runner_id == "runner-2"
    first.thaw()
    await until(lambda: b"session was ended" in first.log.read_bytes(), 20.0)
    again = await mesh.read(job_id)
    assert (again.attempt, again.revision) == (done.attempt, done.revision)
    assert await first.terminate() == 0


async def test_a_drain_charges_nothing(mesh: Mesh, runner: Start) -> None:
    first = runner(mesh.peer, slots=1)
    await first.start()
    job_id = await mesh.submit("wait", seconds=3600)
    await mesh.reaches(job_id, RUNNING)
    assert await first.terminate() == 0
    await runner(mesh.peer).start()
    await mesh.reaches(job_id, RUNNING)
    back = await mesh.read(job_id)
    assert (back.attempt, back.failures, back.crashes) == (2, 0, 0)
    assert JobReason.JOB_REASON_INTERRUPTED in {change.reason for change in back.history}
