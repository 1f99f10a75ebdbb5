"""What is around the mesh: servers that die or take no writes, and watchers that never read."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from jobmesh.channels import open_channel
from jobmesh.client import JobHandle
from jobmesh.dev.errors import DevError
from jobmesh.errors import Unavailable
from jobmesh.v1.job_service_pb2 import WatchJobRequest
from jobmesh.v1.job_service_pb2_grpc import JobServiceStub
from tests.faults import handlers
from tests.faults.rows import Bench
from tests.support.effort import FULL, full
from tests.support.wait import until

if TYPE_CHECKING:
    from jobmesh.v1.job_service_pb2_grpc import JobServiceAsyncStub

log = logging.getLogger(__name__)

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.timeout(7200 if FULL else 150)]

CALL_SECONDS = 5.0
# Five, as the table of faults says; more where much else runs.
HEALED_SECONDS = full(5, 20)
ENDED_SECONDS = 40.0
READERS, SILENT = full(900, 90), full(100, 10)
WATCHED = 10
STEPS = full(200, 40)
# Nothing begins as it is stored: it has to be published.
UNPUBLISHED = "claim.straight=error,submit.after_commit=kill"
# With all its libraries a gateway has about 65 MB.
MOST_BYTES = 200 << 20
# What a job may take longer while all of them watch; asked only where nothing else runs.
MOST_SLOWER = 3.0


async def test_a_dispatcher_that_dies_between_commit_and_publish_loses_nothing(
    bench: Bench,
) -> None:
    fleet = bench.stage.fleet
    jobs: list[JobHandle] = []
    for number in range(full(500, 2)):
        victim = fleet.of("dispatcher")[number % 2]
        await fleet.restart(victim.name, JOBMESH_FAILPOINTS=UNPUBLISHED)
        while victim.running:
            jobs += await bench.submit(handlers.quick, 3)
        await fleet.restart(victim.name, JOBMESH_FAILPOINTS="")
    await bench.ended(jobs, ENDED_SECONDS)
    bench.require_once(jobs)


async def test_a_broker_that_is_killed_under_load_loses_nothing(bench: Bench) -> None:
    nats = bench.stage.nats
    for _ in range(full(50, 1)):
        jobs = await bench.submit(handlers.slow, 100, millis=200)
        nats.kill()
        assert nats.child is not None
        await nats.child.wait()
        jobs += await bench.submit(handlers.quick, 100)
        await nats.start()
        await bench.ended(jobs, ENDED_SECONDS)
        bench.require_once(jobs)


async def test_a_database_that_is_killed_under_submissions_forgets_nothing(bench: Bench) -> None:
    for _ in range(full(20, 1)):
        running = await bench.submit(handlers.slow, 20, millis=6000)
        await bench.running(running)
        before = await bench.revisions(running)
        submitting = asyncio.gather(*(bench.submit(handlers.quick, 20) for _ in range(10)))
        await bench.stage.postgres.kill_all()
        await until(lambda: starts(bench), 30)
        jobs = [job for some in await submitting for job in some]
        await bench.ended([*jobs, *running], ENDED_SECONDS)
        await bench.require_untouched(running, before)
        bench.require_once(jobs)


async def starts(bench: Bench) -> bool:
    try:
        await bench.stage.postgres.start()
    except DevError:  # its children are not gone yet
        return False
    return True


async def test_a_database_without_writes_is_told_by_the_deadline_and_harms_no_job(
    bench: Bench,
) -> None:
    for _ in range(full(10, 1)):
        running = await bench.submit(handlers.slow, 20, millis=4000)
        await bench.running(running)
        before = await bench.revisions(running)
        await bench.stage.postgres.set_read_only(True)
        try:
            await every_call_is_answered(bench, running[0])
        finally:
            await bench.stage.postgres.set_read_only(False)
        began = time.monotonic()
        jobs = await bench.submit(handlers.quick, 20)
        await bench.ended(jobs, HEALED_SECONDS)
        assert time.monotonic() - began < HEALED_SECONDS
        await bench.ended(running, ENDED_SECONDS)
        await bench.require_untouched(running, before)


async def every_call_is_answered(bench: Bench, job: JobHandle) -> None:
    """Within its deadline: what writes is refused, what reads may be."""
    async with bench.stage.fleet.client(timeout=CALL_SECONDS, patience=0) as mesh:
        for number in range(6):
            began = time.monotonic()
            with pytest.raises(Unavailable):
                await mesh.submit(handlers.quick)
            assert time.monotonic() - began < CALL_SECONDS + 1, number
        began = time.monotonic()
        with contextlib.suppress(Unavailable):  # its dispatchers may say that they do not serve
            assert (await mesh.job(job.id).get()).id == job.id
        assert time.monotonic() - began < CALL_SECONDS + 1


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
    caller = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "tests.faults.caller", bench.stage.fleet.addresses("gateway"),
        stdout=asyncio.subprocess.PIPE,
    )  # fmt: skip
    try:
        told, _ = await asyncio.wait_for(caller.communicate(), 60)
    finally:
        if caller.returncode is None:
            caller.kill()
            await caller.wait()
    assert caller.returncode == 0
    return float(told)


def resident_bytes(pid: int) -> int:
    status = Path(f"/proc/{pid}/status").read_text()
    (line,) = [line for line in status.splitlines() if line.startswith("VmRSS:")]
    return int(line.split()[1]) << 10
