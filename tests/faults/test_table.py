"""One fault a test, with its criterion. Few repetitions here; `make faults TABLE=1` has many."""

from __future__ import annotations

import asyncio
import logging
import shutil
import statistics
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from functools import partial
from itertools import pairwise

import pytest
import pytest_asyncio
from nats.js.errors import NotFoundError

from jobmesh.client import JobHandle
from jobmesh.v1.broker_pb2 import WakeUp
from tests.faults import handlers
from tests.faults.chaos import STREAM
from tests.faults.history import Job, Run
from tests.faults.rows import NOTICED_SECONDS, Bench
from tests.faults.stage import LEASE_SECONDS
from tests.support.effort import FULL, full
from tests.support.fleet import Member, plain_nats
from tests.support.proxy import TcpProxy
from tests.support.wait import until

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.timeout(7200 if FULL else 150)]

log = logging.getLogger(__name__)

RUNNING = 100
# More than they need: what a runner takes ahead may wait there while another one has room.
SLOTS = 75
# So long that what is found by it is told from what is found by a stream that broke.
LONG_LEASE_SECONDS = 30.0
# Five, as is promised; where much else runs, still half of the lease.
AGAIN_SECONDS = full(5, 15)
# Asked only where nothing else runs.
ELSEWHERE_SECONDS = 1.0
# Long enough for everything that looks at times to look.
LOOK_SECONDS = 1.0
RECOVERED_SECONDS = 30.0


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def collector() -> AsyncIterator[TcpProxy]:
    """Where traces are sent: it takes connections and never answers, until it refuses them."""
    async with TcpProxy("127.0.0.1", 9) as collector:
        collector.stall()
        yield collector


@pytest.fixture(scope="module")
def settings(collector: TcpProxy) -> dict[str, str]:
    """Everybody sends traces."""
    return {
        "JOBMESH_SLOTS": str(SLOTS),
        "OTEL_EXPORTER_OTLP_ENDPOINT": f"http://{collector.address}",
        "OTEL_EXPORTER_OTLP_TIMEOUT": "1",
        "OTEL_TRACES_SAMPLER": "traceidratio",
        "OTEL_TRACES_SAMPLER_ARG": "0.05",
    }


async def test_jobs_of_a_killed_runner_run_again_within_5_s(bench: Bench) -> None:
    seconds: list[float] = []
    async with long_lease(bench):
        for number in range(full(200, 1)):
            seconds += await seconds_to_run_again(bench, number)
    most = statistics.quantiles(seconds, n=100)[98] if FULL else max(seconds)
    log.info("again after %.1f s (median), %.1f s (p99)", statistics.median(seconds), most)
    assert most < AGAIN_SECONDS, sorted(seconds)


@asynccontextmanager
async def long_lease(bench: Bench) -> AsyncIterator[None]:
    """The leader finds a silent runner late: dispatchers have to see that its stream broke."""
    schedulers = [member.name for member in bench.stage.fleet.of("scheduler")]
    restart = bench.stage.fleet.restart
    await restart(*schedulers, JOBMESH_SESSION_LEASE_SECONDS=str(LONG_LEASE_SECONDS))
    try:
        yield
    finally:
        await restart(*schedulers)


async def seconds_to_run_again(bench: Bench, number: int) -> list[float]:
    """From the death of a runner to the next run of each job that it ran."""
    with bench.gate() as gate:
        jobs = await bench.submit(handlers.hold, 20, gate=str(gate))
        limited = await bench.submit(handlers.limited, 6, millis=100)
        await bench.running(jobs)
        victim = one_that_runs(bench, jobs, number)
        hit, killed = of_process(bench, jobs, victim.pid), time.time()
        await bench.kill(victim)
        await until(lambda: all(map(runs_again, bench.runs(hit).values())), 30, bench.trouble, 0.1)
    await bench.ended(jobs + limited, 30)
    await bench.serving(victim)
    return [runs[1].start - killed for runs in bench.runs(hit).values()]


def runs_again(runs: Sequence[Run]) -> bool:
    return len(runs) == 2


async def test_a_runner_stopped_for_three_leases_is_replaced_and_not_believed(
    bench: Bench,
) -> None:
    for number in range(full(20, 1)):
        jobs = await bench.submit(handlers.clinging, 20)
        await bench.running(jobs)
        victim = one_that_runs(bench, jobs, number)
        mine = of_process(bench, jobs, victim.pid)
        assert mine
        victim.freeze()
        await asyncio.sleep(3 * LEASE_SECONDS)  # the fault itself
        await bench.ended(mine, 30)
        before = {job.id: job.revision for job in await bench.stored(mine)}
        victim.thaw()
        await until(partial(all_told_to_stop, bench, mine), 10, bench.trouble, 0.1)
        after = await bench.stored(mine)
        assert {job.id: job.revision for job in after} == before
        assert {job.result["attempt"] for job in after if isinstance(job.result, dict)} == {2}
        await cancel(bench, [job for job in jobs if job not in mine])


def one_that_runs(bench: Bench, jobs: Sequence[JobHandle], number: int) -> Member:
    """Each runner in turn, but for one that has none of these: a wake-up names sixteen."""
    runners = [r for r in bench.stage.fleet.of("runner") if of_process(bench, jobs, r.pid)]
    return runners[number % len(runners)]


def of_process(bench: Bench, jobs: Sequence[JobHandle], pid: int) -> list[JobHandle]:
    runs = bench.runs(jobs)
    return [job for job in jobs if runs[job.id] and runs[job.id][-1].process == pid]


def all_told_to_stop(bench: Bench, jobs: Sequence[JobHandle]) -> bool:
    return all(runs[0].outcome == "cancelled" for runs in bench.runs(jobs).values())


async def cancel(bench: Bench, jobs: Sequence[JobHandle]) -> None:
    await asyncio.gather(*(job.cancel("the test is over") for job in jobs))
    await bench.ended(jobs, 20)


async def test_running_jobs_outlive_their_dispatcher(bench: Bench) -> None:
    for number in range(full(20, 1)):
        victim = bench.stage.fleet.of("dispatcher")[number % 2]
        with bench.gate() as gate:
            jobs = await bench.submit(handlers.hold, RUNNING, gate=str(gate))
            await bench.running(jobs)
            before = await bench.revisions(jobs)
            await bench.kill(victim)
            await asyncio.sleep(NOTICED_SECONDS)  # the fault itself
        await bench.ended(jobs, 30)
        await bench.require_untouched(jobs, before)
        await bench.serving(victim)


async def test_a_wiped_broker_loses_nothing(bench: Bench) -> None:
    nats = bench.stage.nats
    for _ in range(full(5, 1)):
        with bench.gate() as gate:
            jobs = await bench.submit(handlers.hold, 2 * SLOTS, gate=str(gate))
            await bench.running(jobs, least=RUNNING)
            begun = bench.begun(jobs)
            before = await bench.revisions(begun)
            queued = await bench.submit(handlers.quick, full(10_000, 1_000))
            nats.kill()
            assert nats.child is not None
            await nats.child.wait()
            shutil.rmtree(bench.stage.nats_store)
            await nats.start()
            again = time.monotonic()
            await until(lambda: has_stream(nats.url), RECOVERED_SECONDS, bench.trouble)
        await bench.ended(jobs + queued, again + RECOVERED_SECONDS - time.monotonic())
        await bench.require_untouched(begun, before)
        bench.require_once(jobs)  # what waited in a runner may have been given back, unharmed


async def has_stream(url: str) -> bool:
    """Whether the dispatchers have made the stream of wake-ups."""
    async with plain_nats(url) as client:
        with suppress(NotFoundError):
            return bool(await client.jetstream().stream_info(STREAM))
    return False


async def test_a_frozen_database_and_stopped_dispatchers_queue_nothing_again(
    bench: Bench,
) -> None:
    with bench.gate() as gate:
        jobs = await bench.submit(handlers.hold, RUNNING, gate=str(gate))
        await bench.running(jobs)
        before = await bench.revisions(jobs)
        bench.stage.postgres.freeze()
        await asyncio.sleep(full(60, 5))  # the fault itself
        bench.stage.postgres.thaw()
        for dispatcher in bench.stage.fleet.of("dispatcher"):
            dispatcher.freeze()
        await asyncio.sleep(full(30, 4))  # the fault itself
        for dispatcher in bench.stage.fleet.of("dispatcher"):
            dispatcher.thaw()
        await asyncio.sleep(LOOK_SECONDS)
    await bench.ended(jobs, 40)
    await bench.require_untouched(jobs, before)


async def test_a_database_whose_clock_jumps_queues_nothing_again(bench: Bench) -> None:
    for _ in range(full(10, 1)):
        with bench.gate() as gate:
            jobs = await bench.submit(handlers.hold, RUNNING, gate=str(gate))
            await bench.running(jobs)
            before = await bench.revisions(jobs)
            for offset in (300, -300, 0):
                bench.stage.postgres.set_clock(offset)
                later = await bench.submit(handlers.quick, 20)
                await bench.ended(later, 15)
                await asyncio.sleep(LOOK_SECONDS)
        await bench.ended(jobs, 20)
        await bench.require_untouched(jobs, before)


async def test_a_job_delivered_ten_times_at_once_is_claimed_once(bench: Bench) -> None:
    for _ in range(full(20, 1)):
        runners = bench.stage.fleet.of("runner")
        await asyncio.gather(*(bench.terminate(runner) for runner in runners))
        jobs = await bench.submit(handlers.quick, 30)
        await deliver(bench, jobs, times=10)
        await bench.serving(*runners)
        await bench.ended(jobs, 20)
        await bench.require_untouched(jobs)


async def deliver(bench: Bench, jobs: Sequence[JobHandle], times: int) -> None:
    """Have the broker hold so many wake-ups more of each of these jobs."""
    token = await bench.stage.fleet.value("SELECT token FROM jobmesh.queues WHERE name = 'default'")
    async with plain_nats(bench.stage.nats.url) as client:
        jetstream = client.jetstream()
        for _ in range(times):
            for job in jobs:
                wake_up = WakeUp(version=1, job_ids=[bytes.fromhex(job.id.replace("-", ""))])
                await jetstream.publish(f"jm.job.{token}.4", wake_up.SerializeToString())


async def test_jobs_of_a_runner_that_is_asked_to_end_go_on_elsewhere(bench: Bench) -> None:
    pauses: list[float] = []
    for number in range(full(20, 1)):
        victim = bench.stage.fleet.of("runner")[number % 2]
        warm = await bench.submit(handlers.slow, 200, millis=100)
        await bench.ended(warm, 30)
        jobs = await bench.submit(handlers.slow, 400, millis=100)
        await bench.running(jobs, least=1)
        await bench.terminate(victim)
        await bench.ended(jobs, 30)
        stored = await bench.stored(jobs)
        assert {(job.state, job.failures, job.crashes) for job in stored} == {("SUCCEEDED", 0, 0)}
        pauses += pauses_of(stored)
        await bench.serving(victim)
    if pauses:  # all may have ended while their runner drained
        log.info("elsewhere after %.2f s (median)", statistics.median(pauses))
    if FULL:
        assert statistics.median(pauses) < ELSEWHERE_SECONDS, sorted(pauses)


def pauses_of(jobs: Sequence[Job]) -> list[float]:
    """Seconds that interrupted jobs waited until they were claimed again."""
    return [
        after.time - before.time
        for job in jobs
        for before, after in pairwise(job.changes)
        if before.reason == "INTERRUPTED"
    ]


async def test_jobs_do_not_notice_that_the_collector_of_traces_is_gone(
    bench: Bench, collector: TcpProxy
) -> None:
    for gone in (collector.stall, collector.cut):
        gone()
        jobs = await bench.submit(handlers.quick, 200)
        await bench.ended(jobs, 10)
        await bench.require_untouched(jobs)
        # Traces are sent every few seconds only.
        await until(lambda: collector.accepted, 20, "somebody tries to send a trace")
