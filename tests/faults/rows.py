"""What the tests of single faults share: one mesh, jobs that run, and the check at the end."""

from __future__ import annotations

import asyncio
import itertools
import signal
import time
from collections import Counter
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import asyncpg

from jobmesh.client import Client, JobHandle
from jobmesh.dev.child import describe_exit
from tests.faults import ledger, observe, processes, report
from tests.faults.chaos import Timeline
from tests.faults.checker import Observed, check
from tests.faults.handlers import LIMIT, LIMITED
from tests.faults.history import History, Job, Run
from tests.faults.stage import LEASE_SECONDS, Stage
from tests.support.fleet import Member
from tests.support.wait import until

LOOK_SECONDS = 0.05
RUNNING_SECONDS = 20.0
# By then whoever fell silent has been found, and what it ran is queued again.
NOTICED_SECONDS = LEASE_SECONDS + 1


@dataclass
class Bench:
    """A mesh for one test after another; `history` has every job that was submitted.

    `down` are the members that a test has ended, and not started again.
    """

    stage: Stage
    mesh: Client
    history: History = field(default_factory=History)
    down: set[str] = field(default_factory=set)
    _numbers: Iterator[int] = field(default_factory=itertools.count)

    async def submit(self, task: Any, count: int, /, **arguments: Any) -> list[JobHandle]:
        """So many jobs, all alike; acknowledged when this returns."""
        number = len(self.history.operations)
        ids = [f"bench-{number}-{each}" for each in range(count)]
        async with self.history.operation("batch") as operation:
            operation.request_ids = tuple(ids)
            jobs = await self.mesh.submit_many(
                [self.mesh.with_options(request_id=i).prepare(task, **arguments) for i in ids]
            )
            operation.job_ids = tuple(job.id for job in jobs)
        assert operation.job_ids, str(operation)
        return jobs

    @contextmanager
    def gate(self) -> Iterator[Path]:
        """A file for jobs to hold for (`handlers.hold`): they end when this is left."""
        gate = self.stage.fleet.directory / f"gate-{next(self._numbers)}"
        try:
            yield gate
        finally:
            gate.touch()

    def runs(self, jobs: Sequence[JobHandle]) -> dict[str, list[Run]]:
        """The runs of each job's handler, in its own words, oldest first."""
        found: dict[str, list[Run]] = {job.id: [] for job in jobs}
        for run in ledger.read(self.stage.ledger):
            if run.job_id in found:
                found[run.job_id].append(run)
        return found

    async def running(self, jobs: Sequence[JobHandle], least: int | None = None) -> None:
        """Wait until the handlers of so many of them run at once; of all by default."""

        def run() -> bool:
            now = sum(bool(runs) and runs[-1].end is None for runs in self.runs(jobs).values())
            return now >= (len(jobs) if least is None else least)

        await until(run, RUNNING_SECONDS, self.trouble, LOOK_SECONDS)

    def thaw(self) -> None:
        """Let whatever is frozen go on."""
        self.stage.postgres.thaw()
        for member in self.stage.fleet.members.values():
            if member.running:
                member.thaw()

    def begun(self, jobs: Sequence[JobHandle]) -> list[JobHandle]:
        """Those whose handler has begun; the others wait, some of them in a runner."""
        runs = self.runs(jobs)
        return [job for job in jobs if runs[job.id]]

    async def ended(self, jobs: Sequence[JobHandle], timeout: float) -> float:
        """Wait until all have ended; the seconds it took."""
        began = time.monotonic()
        ids = [job.id for job in jobs]
        live = "SELECT count(*) FROM jobmesh.jobs_live WHERE job_id = ANY ($1::uuid[])"

        async def none_lives() -> bool:
            return not await self.stage.fleet.value(live, ids)

        await until(none_lives, timeout, self.trouble, 0.2)
        return time.monotonic() - began

    async def stored(self, jobs: Sequence[JobHandle]) -> list[Job]:
        """The jobs as the database has them."""
        ids = {job.id for job in jobs}
        return [job for job in await self._all() if job.id in ids]

    async def revisions(self, jobs: Sequence[JobHandle]) -> dict[str, int]:
        """The revision of each job as it stands: what came before a fault is not its doing.

        A runner may have given back what waited in it too long for a slot.
        """
        return {job.id: job.revision for job in await self.stored(jobs)}

    async def require_untouched(
        self, jobs: Sequence[JobHandle], since: Mapping[str, int] | None = None
    ) -> None:
        """Nothing of these was queued again, and no handler ran twice.

        :param since: revisions of jobs that ran; of others all changes count.
        """
        usual = [("QUEUED", "UNSPECIFIED"), ("RUNNING", "UNSPECIFIED"), ("SUCCEEDED", "COMPLETED")]
        for job in await self.stored(jobs):
            begin = 0 if since is None else since[job.id]
            told = [(c.state, c.reason) for c in job.changes if c.revision > begin]
            assert told == (usual if since is None else usual[-1:]), job
        self.require_once(jobs)

    def require_once(self, jobs: Sequence[JobHandle]) -> None:
        """The handler of each ran once, to its end."""
        runs = self.runs(jobs).values()
        assert [len(each) for each in runs] == [1] * len(jobs)
        assert {run.outcome for each in runs for run in each} == {"returned"}

    async def require_right(self, timeline: Timeline) -> None:
        """The whole history is as it may be."""
        async with self._connection() as connection:
            observed = Observed(
                self.history,
                runs=ledger.read(self.stage.ledger),
                requests=await observe.requests(connection),
                limits={LIMITED: LIMIT},
                slots=await observe.slots(connection),
                clock_moved=True,
                traces=Counter(processes.logged(self.stage.fleet.members.values())),
            )
            jobs = [job async for job in observe.jobs(connection)]
        violations = check(observed, jobs)
        told = "\n".join(line for each in violations for line in report.explain(each, timeline))
        assert not violations, told

    async def kill(self, member: Member) -> None:
        """SIGKILL; `serving` starts it again."""
        self.down.add(member.name)
        await member.kill()
        assert exit_code(member) == -signal.SIGKILL, self.trouble()

    async def terminate(self, member: Member) -> None:
        """SIGTERM, which it takes well; `serving` starts it again."""
        self.down.add(member.name)
        assert await member.terminate() == 0, self.trouble()

    async def serving(self, *members: Member) -> None:
        """Start those of them that a test has ended, and wait until all serve.

        Whatever else has ended is started too, for the tests to come, and fails this one.
        """
        stopped = [member for member in members if not member.running]
        fallen = [
            f"{member.name} ended by itself with {describe_exit(exit_code(member))}"
            for member in stopped
            if member.name not in self.down
        ]
        trouble = self.trouble() if fallen else ""
        await asyncio.gather(*(member.start() for member in stopped))
        await asyncio.gather(*(member.ready() for member in members))
        self.down -= {member.name for member in members}
        assert not fallen, f"{fallen}\n{trouble}"

    def trouble(self) -> str:
        """What the processes complained of."""
        return self.stage.fleet.trouble()

    async def _all(self) -> list[Job]:
        async with self._connection() as connection:
            return [job async for job in observe.jobs(connection)]

    @asynccontextmanager
    async def _connection(self) -> AsyncIterator[asyncpg.Connection]:
        dsn = self.stage.postgres.dsn()
        connection = await asyncpg.connect(dsn, timeout=10, command_timeout=60)
        try:
            yield connection
        finally:
            await connection.close(timeout=10)


def exit_code(member: Member) -> int:
    """Of one that has ended; negative for the signal that ended it."""
    assert member.child is not None
    assert member.child.exit_code is not None
    return member.child.exit_code
