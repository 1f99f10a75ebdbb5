"""How soon a job starts on a mesh that is not busy."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

import grpc.aio
import msgspec

from benchmarks.ours.requests import submission
from jobmesh.v1 import job_pb2
from jobmesh.v1 import job_service_pb2 as pb
from jobmesh.v1.job_service_pb2_grpc import JobServiceStub

if TYPE_CHECKING:
    from jobmesh.v1.job_service_pb2_grpc import JobServiceAsyncStub

CALL_TIMEOUT = 30.0
PAGE = 500


@dataclass(frozen=True, slots=True)
class StartLatencies:
    """Milliseconds of each job.

    - ``handler``: from the beginning of the submitting call to the first line of the handler.
    - ``recorded``: from the job's ``create_time`` to its ``start_time``.
    """

    handler: list[float]
    recorded: list[float]


async def start_latencies(
    channel: grpc.aio.Channel, per_second: int, seconds: float
) -> StartLatencies:
    """Submit at an even rate, whatever the answers take, then read the jobs."""
    begun = await _submit_evenly(JobServiceStub(channel), per_second, seconds)
    jobs = await _finished(JobServiceStub(channel), list(begun))
    return StartLatencies(
        handler=[(_handler_ns(job) - begun[job.job_id]) / 1e6 for job in jobs],
        recorded=[
            (job.start_time.ToNanoseconds() - job.create_time.ToNanoseconds()) / 1e6 for job in jobs
        ],
    )


def percentile(values: list[float], percent: float) -> float:
    """The value that so many percent do not exceed."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * percent / 100))]


async def _submit_evenly(
    stub: JobServiceAsyncStub, per_second: int, seconds: float
) -> dict[str, int]:
    """Job ids with the monotonic times, in ns, at which their calls began."""
    loop = asyncio.get_running_loop()
    begun: dict[str, int] = {}
    request = submission("bench.begun")

    async def submit() -> None:
        began = time.monotonic_ns()
        answer = await stub.SubmitJob(request, timeout=CALL_TIMEOUT)
        begun[answer.job.job_id] = began

    first = loop.time()
    async with asyncio.TaskGroup() as group:
        for number in range(int(per_second * seconds)):
            await asyncio.sleep(first + number / per_second - loop.time())
            group.create_task(submit())
    return begun


async def _finished(stub: JobServiceAsyncStub, ids: list[str]) -> list[job_pb2.Job]:
    for job_id in ids:
        await stub.WaitJob(pb.WaitJobRequest(job_id=job_id), timeout=CALL_TIMEOUT)
    jobs: list[job_pb2.Job] = []
    for start in range(0, len(ids), PAGE):
        request = pb.BatchGetJobsRequest(
            job_ids=ids[start : start + PAGE], view=job_pb2.JOB_VIEW_FULL
        )
        jobs += (await stub.BatchGetJobs(request, timeout=CALL_TIMEOUT)).jobs
    return jobs


def _handler_ns(job: job_pb2.Job) -> int:
    if job.state != job_pb2.JOB_STATE_SUCCEEDED:
        raise RuntimeError(f"job {job.job_id} ended as {job_pb2.JobState.Name(job.state)}")
    result = job.result
    if result.HasField("json"):
        return int(result.json.struct_value.fields["monotonic_ns"].number_value)
    return int(msgspec.json.decode(result.data)["monotonic_ns"])
