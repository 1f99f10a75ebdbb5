"""grpc.aio by itself: unary calls to a bare server in a process of its own."""

from __future__ import annotations

import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import repeat
from pathlib import Path

import grpc.aio

from benchmarks.flight import rate
from jobmesh.dev.child import Child, Program
from jobmesh.v1 import job_service_pb2 as pb
from jobmesh.v1.job_service_pb2_grpc import JobServiceStub

READY_TIMEOUT = 30.0
CALL_TIMEOUT = 30.0


@asynccontextmanager
async def bare_server(port: int, log: Path) -> AsyncIterator[grpc.aio.Channel]:
    """A channel to a fresh server."""
    child = await Child.start(
        Program(
            name="unary",
            command=(sys.executable, "-m", "benchmarks.floors.unary_server", str(port)),
            log=log,
        )
    )
    try:
        async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
            ready = JobServiceStub(channel).SubmitJob(
                pb.SubmitJobRequest(), timeout=READY_TIMEOUT, wait_for_ready=True
            )
            await ready
            yield channel
    finally:
        await child.stop((signal.SIGTERM, 5.0))


async def calls(
    channel: grpc.aio.Channel, request: pb.SubmitJobRequest, count: int, in_flight: int
) -> float:
    """Calls a second, of the same request and so of the same size as ours."""
    stub = JobServiceStub(channel)

    async def call(each: pb.SubmitJobRequest) -> None:
        await stub.SubmitJob(each, timeout=CALL_TIMEOUT)

    return await rate(repeat(request, count), call, in_flight)
