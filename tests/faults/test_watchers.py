"""Very many watchers, some of whom never read: the others and the jobs do not notice."""

from __future__ import annotations

import asyncio
import logging
import statistics
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from jobmesh.channels import open_channel
from jobmesh.client import JobHandle
from jobmesh.v1.job_service_pb2 import WatchJobRequest
from jobmesh.v1.job_service_pb2_grpc import JobServiceStub
from tests.faults import handlers
from tests.faults.rows import Bench
from tests.support.effort import FULL, full

if TYPE_CHECKING:
    from jobmesh.v1.job_service_pb2_grpc import JobServiceAsyncStub

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.timeout(600 if FULL else 150)]

log = logging.getLogger(__name__)

READERS, SILENT = full(900, 90), full(100, 10)
WATCHED = 10
STEPS = full(200, 40)
# With all its libraries a gateway has about 65 MB.
MOST_BYTES = 200 << 20
# What a job may take longer while all of them watch; asked only where nothing else runs.
MOST_SLOWER = 3.0


async def test_a_thousand_watchers_of_whom_some_never_read(bench: Bench) -> None:
    gateway = bench.stage.fleet.of("gateway")[0]
    before = await seconds_of_a_job(bench)
    jobs = await bench.submit(handlers.steps, WATCHED, count=STEPS, millis=100)
    async with open_channel(gateway.address, health_check=False) as channel:
        stub = JobServiceStub(channel)
        silent = [stub.WatchJob(request(jobs, number)) for number in range(SILENT)]
        reading = [asyncio.create_task(read(stub, jobs, number)) for number in range(READERS)]
        try:
            await asyncio.wait_for(
                asyncio.gather(*(call.initial_metadata() for call in silent)), 30
            )
            during = await seconds_of_a_job(bench)
            await bench.ended(jobs, 120)
            ends = await asyncio.wait_for(asyncio.gather(*reading), 60)
        finally:
            for call in silent:
                call.cancel()
            for task in reading:
                task.cancel()
    assert ends == ["terminal"] * READERS
    used = resident_bytes(gateway.pid)
    log.info("a job took %.3f s, then %.3f s; gateway %d MB", before, during, used >> 20)
    assert used < MOST_BYTES
    if FULL:
        assert during < MOST_SLOWER * before


def request(jobs: Sequence[JobHandle], number: int) -> WatchJobRequest:
    return WatchJobRequest(job_id=jobs[number % len(jobs)].id)


async def read(stub: JobServiceAsyncStub, jobs: Sequence[JobHandle], number: int) -> str:
    """The kind of a stream's last event; its revisions come one by one."""
    revision, kind = 0, ""
    async for event in stub.WatchJob(request(jobs, number)):
        kind = event.WhichOneof("event") or ""
        if kind == "snapshot":
            revision = event.snapshot.revision
        elif kind == "state_changed":
            assert event.revision == revision + 1
            revision = event.revision
    return kind


async def seconds_of_a_job(bench: Bench) -> float:
    """From the submission to the end, as its caller sees it; the median of some."""
    took: list[float] = []
    for _ in range(20):
        began = time.monotonic()
        (job,) = await bench.submit(handlers.quick, 1)
        await job.wait(30)
        took.append(time.monotonic() - began)
    return statistics.median(took)


def resident_bytes(pid: int) -> int:
    status = Path(f"/proc/{pid}/status").read_text()
    (line,) = [line for line in status.splitlines() if line.startswith("VmRSS:")]
    return int(line.split()[1]) << 10
