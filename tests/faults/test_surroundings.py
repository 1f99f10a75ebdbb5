"""What is around the mesh: servers that die or take no writes, and watchers that never read."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import signal
import sys
import time
from collections.abc import AsyncIterator, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from jobmesh.channels import open_channel
from jobmesh.client import JobHandle
from jobmesh.dev.errors import DevError
from jobmesh.errors import Unavailable
from jobmesh.v1.job_service_pb2 import WATCH_INCLUDE_LOG, ReadLogRequest, WatchJobRequest
from jobmesh.v1.job_service_pb2_grpc import JobServiceStub
from tests.faults import handlers
from tests.faults.rows import NOTICED_SECONDS, Bench, exit_code
from tests.support.effort import FULL, full
from tests.support.fleet import Member
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
LISTENERS = 3
# Far more than is sent to whoever does not read (64 KB) and is kept for it (128 KB).
LINES, LINE_BYTES = 80, 8000
DROPPED = "jobmesh_gateway_lines_dropped_total"
# Where a connection is fast, gRPC sends far more than that.
NO_MORE = [("grpc.http2.bdp_probe", 0)]
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
        bench.down.add(victim.name)
        while victim.running:
            jobs += await bench.submit(handlers.quick, 3)
        assert exit_code(victim) == -signal.SIGKILL, bench.trouble()
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
        with bench.gate() as gate:
            running = await bench.submit(handlers.hold, 20, gate=str(gate))
            await bench.running(running)
            before = await bench.revisions(running)
            submitting = asyncio.gather(*(bench.submit(handlers.quick, 20) for _ in range(10)))
            await bench.stage.postgres.kill_all()
            await until(lambda: starts(bench), 30)
            jobs = [job for some in await submitting for job in some]
            await asyncio.gather(bench.ended(jobs, ENDED_SECONDS), asyncio.sleep(NOTICED_SECONDS))
        await bench.ended(running, ENDED_SECONDS)
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
        with bench.gate() as late, bench.gate() as early:
            running = await bench.submit(handlers.hold, 20, gate=str(late))
            ending = await bench.submit(handlers.hold, 10, gate=str(early))
            await bench.running(running + ending)
            before = await bench.revisions(running + ending)
            async with without_writes(bench):
                early.touch()
                await until(partial(all_returned, bench, ending), 10, bench.trouble)
                await every_call_is_answered(bench, running[0])
            began = time.monotonic()
            jobs = await bench.submit(handlers.quick, 20)
            await bench.ended(jobs, HEALED_SECONDS)
            assert time.monotonic() - began < HEALED_SECONDS
        await bench.ended(running + ending, ENDED_SECONDS)
        await bench.require_untouched(running + ending, before)


@contextlib.asynccontextmanager
async def without_writes(bench: Bench) -> AsyncIterator[None]:
    """The database takes none."""
    await bench.stage.postgres.set_read_only(True)
    try:
        yield
    finally:
        await bench.stage.postgres.set_read_only(False)


def all_returned(bench: Bench, jobs: Sequence[JobHandle]) -> bool:
    """Whether their handlers have; it need not be recorded."""
    return all(runs[-1].outcome == "returned" for runs in bench.runs(jobs).values())


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
    before, dropped = await seconds_of_a_job(bench), await gateway.metric(DROPPED)
    with bench.gate() as gate:
        jobs = await bench.submit(handlers.steps, WATCHED, count=STEPS, millis=100)
        jobs += await bench.submit(
            handlers.talk, 1, gate=str(gate), lines=LINES, size=LINE_BYTES, millis=40
        )
        async with reading(gateway, jobs) as (ends, heard), silent(gateway, jobs[-1]):
            gate.touch()
            during = await seconds_of_a_job(bench)
            await bench.ended(jobs, 120)
            assert await asyncio.wait_for(ends, 60) == ["terminal"] * READERS
            assert await asyncio.wait_for(heard, 60) == [list(range(LINES))] * LISTENERS
            used = resident_bytes(gateway.pid)
    log.info("a job took %.3f s, then %.3f s; gateway %d MB", before, during, used >> 20)
    assert used < MOST_BYTES
    await until(lambda: has_dropped(gateway, dropped + SILENT * LINES // 2), 10, bench.trouble)
    if FULL:
        assert during < MOST_SLOWER * before


@contextlib.asynccontextmanager
async def reading(
    gateway: Member, jobs: Sequence[JobHandle]
) -> AsyncIterator[tuple[asyncio.Future[list[str]], asyncio.Future[list[list[int]]]]]:
    """What those see who watch the jobs, and who follow the last one's log."""
    async with open_channel(gateway.address, health_check=False) as channel:
        stub = JobServiceStub(channel)
        ends = asyncio.gather(*(read(stub, jobs, number) for number in range(READERS)))
        heard = asyncio.gather(*(hear(stub, jobs[-1]) for _ in range(LISTENERS)))
        try:
            yield ends, heard
        finally:
            for some in (ends, heard):
                some.cancel()
                await asyncio.wait({some})


@contextlib.asynccontextmanager
async def silent(gateway: Member, job: JobHandle) -> AsyncIterator[None]:
    """Many ask for a job's log, and take nothing beyond what is sent to whoever does not read."""
    async with open_channel(gateway.address, health_check=False, options=NO_MORE) as channel:
        request = WatchJobRequest(job_id=job.id, include=[WATCH_INCLUDE_LOG])
        calls = [JobServiceStub(channel).WatchJob(request) for _ in range(SILENT)]
        try:
            await asyncio.wait_for(asyncio.gather(*(call.initial_metadata() for call in calls)), 30)
            yield
        finally:
            for call in calls:
                call.cancel()


async def has_dropped(gateway: Member, lines: float) -> bool:
    """Whether it has left out so many lines; it counts those of a watch at its end."""
    return await gateway.metric(DROPPED) >= lines


async def hear(stub: JobServiceAsyncStub, job: JobHandle) -> list[int]:
    """The numbers in the lines of a log, followed to the job's end."""
    lines = stub.ReadLog(ReadLogRequest(job_id=job.id, follow=True))
    return [int(line.message.split()[0]) async for line in lines]


async def read(stub: JobServiceAsyncStub, jobs: Sequence[JobHandle], number: int) -> str:
    """The kind of a stream's last event; its revisions come one by one."""
    revision, kind = 0, ""
    async for event in stub.WatchJob(WatchJobRequest(job_id=jobs[number % len(jobs)].id)):
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
