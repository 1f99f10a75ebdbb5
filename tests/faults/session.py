"""One session of the suite: a mesh under load is hurt, mended, and asked what became of it."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import asyncpg

import jobmesh
from jobmesh.dev.ports import PortPool
from tests.faults import ledger, observe, processes
from tests.faults.chaos import CLOCK_SECONDS, Chaos, Timeline
from tests.faults.checker import Observed, Violation, check
from tests.faults.handlers import LIMIT, LIMITED
from tests.faults.history import History
from tests.faults.plan import Fault, Kind, plan
from tests.faults.processes import Death, Trace
from tests.faults.stage import Stage, staged
from tests.faults.workload import CALL_SECONDS, LONGEST_CALL, Workload

SETTLE_SECONDS = 90.0
QUIET_SECONDS = 3.0
LOOK_SECONDS = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class Script:
    """What a session does; `rate` in jobs a second."""

    seed: int
    seconds: float
    rate: float
    faults_a_minute: float
    kinds: Mapping[str, Kind]
    directory: Path | None = None

    def faults(self) -> list[Fault]:
        """Its plan."""
        return plan(self.seed, self.seconds, self.faults_a_minute, self.kinds)


@dataclass(slots=True)
class Verdict:
    """What came of a session; `settled` is how many seconds after the last fault all was done."""

    history: History
    timeline: Timeline
    violations: list[Violation]
    jobs: Counter[str]
    attempts: Counter[str]
    runs: int
    settled: float
    deaths: Sequence[Death]
    traces: Counter[Trace]


async def play(script: Script, timeline: Timeline) -> Verdict:
    """Run a session to its end."""
    faults = script.faults()
    clock = any(fault.kind == "postgres.clock" for fault in faults)
    links = {fault.target for fault in faults if fault.kind.startswith("link.")}
    with PortPool() as ports:
        async with staged(
            ports, clock=clock, hurt_links=links, directory=script.directory
        ) as stage:
            history = History()
            chaos = Chaos(stage, timeline, script.seed)
            async with chaos.kept():
                await _under_load(script, stage, history, chaos, faults)
                if clock:
                    # What waits until a time that was set while the clock was ahead is due now.
                    stage.postgres.set_clock(2 * CLOCK_SECONDS)
                timeline.add("all is whole, and no more calls are made")
                settled = await _settle(stage)
                timeline.add(f"settled after {settled:.1f} s")
            if script.directory is not None:
                told = "\n".join(map(str, history.operations))
                (script.directory / "operations").write_text(told)
            verdict = await _judge(stage, history, timeline, chaos.deaths, clock_moved=clock)
            verdict.settled = settled
            return verdict


async def _under_load(
    script: Script, stage: Stage, history: History, chaos: Chaos, faults: Sequence[Fault]
) -> None:
    address = stage.fleet.addresses("gateway")
    async with (
        jobmesh.connect(address, timeout=CALL_SECONDS) as one,
        jobmesh.connect(address, timeout=CALL_SECONDS) as other,
    ):
        await one.queues.update(LIMITED, max_running=LIMIT)
        workload = Workload(history, (one, other), script.seed, script.rate)
        calling = asyncio.create_task(workload.run())
        try:
            ends = asyncio.get_running_loop().time() + script.seconds
            await chaos.carry_out(faults)
            # The time that is left is the load's alone.
            await asyncio.sleep(ends - asyncio.get_running_loop().time())
            calling.cancel()
            await asyncio.wait({calling})
            if not calling.cancelled():
                calling.result()
            await workload.finish()
        finally:
            calling.cancel()
            await asyncio.wait({calling})
            await workload.abandon()


async def _settle(stage: Stage) -> float:
    """Wait until every job has ended, and stays so; the seconds it took, at most so many."""
    began, quiet = time.monotonic(), None
    while (now := time.monotonic()) - began < SETTLE_SECONDS:
        if await stage.fleet.value("SELECT count(*) FROM jobmesh.jobs_live"):
            quiet = None
        elif quiet is None:
            quiet = now
        elif now - quiet > QUIET_SECONDS:
            return quiet - began
        await asyncio.sleep(LOOK_SECONDS)
    return SETTLE_SECONDS


async def _judge(
    stage: Stage,
    history: History,
    timeline: Timeline,
    deaths: Sequence[Death],
    *,
    clock_moved: bool,
) -> Verdict:
    runs = ledger.read(stage.ledger)
    traces = Counter(processes.logged(stage.fleet.members.values()))
    connection = await asyncpg.connect(stage.postgres.dsn(), timeout=10, command_timeout=60)
    try:
        observed = Observed(
            history=history,
            runs=runs,
            requests=await observe.requests(connection),
            limits={LIMITED: LIMIT},
            slots=await observe.slots(connection),
            clock_moved=clock_moved,
            longest_call=LONGEST_CALL,
            deaths=deaths,
            traces=traces,
        )
        jobs = [job async for job in observe.jobs(connection)]
    finally:
        await connection.close(timeout=10)
    return Verdict(
        history=history,
        timeline=timeline,
        violations=check(observed, jobs),
        jobs=Counter(f"{job.state} {job.reason}" for job in jobs),
        attempts=Counter(attempt.outcome for job in jobs for attempt in job.attempts),
        runs=len(runs),
        settled=0.0,
        deaths=deaths,
        traces=traces,
    )
