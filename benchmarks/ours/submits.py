"""Submitting: in batches, and one by one."""

from __future__ import annotations

from itertools import repeat

import grpc.aio

from benchmarks.flight import rate
from benchmarks.ours.requests import batch, submission
from jobmesh.v1 import job_service_pb2 as pb
from jobmesh.v1.job_service_pb2_grpc import JobServiceStub

CALL_TIMEOUT = 60.0
BATCHES_IN_FLIGHT = 4


async def batched(channel: grpc.aio.Channel, count: int, size: int) -> float:
    """Jobs a second, durable, in calls of ``size`` jobs."""
    stub = JobServiceStub(channel)

    async def call(request: pb.BatchSubmitJobsRequest) -> None:
        answer = await stub.BatchSubmitJobs(request, timeout=CALL_TIMEOUT)
        created = sum(result.ok.created for result in answer.results)
        if created != len(request.requests):
            raise RuntimeError(f"{created} of {len(request.requests)} jobs were created")

    calls = repeat(batch("bench.noop", size), -(-count // size))
    return size * await rate(calls, call, BATCHES_IN_FLIGHT)


async def one_by_one(channel: grpc.aio.Channel, count: int, in_flight: int) -> float:
    """Jobs a second, durable, one a call, as any client without grouping does it."""
    stub = JobServiceStub(channel)

    async def call(request: pb.SubmitJobRequest) -> None:
        answer = await stub.SubmitJob(request, timeout=CALL_TIMEOUT)
        if not answer.created:
            raise RuntimeError("a job was not created")

    return await rate(repeat(submission("bench.noop"), count), call, in_flight)
