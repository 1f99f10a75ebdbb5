"""What the mesh guarantees holds while its processes are killed: invariants 1, 2, 3 and 6."""

from __future__ import annotations

import asyncio
import itertools
import os
import random
import shutil
import signal
from collections.abc import AsyncIterator, Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING
from uuid import UUID

import grpc
import pytest
import pytest_asyncio
from nats.js.errors import NotFoundError

import jobmesh
from jobmesh.channels import open_channel
from jobmesh.client import Ended, StateChanged
from jobmesh.dev.errors import DevError
from jobmesh.dev.ports import PortPool
from jobmesh.dev.postgres import EmbeddedPostgres
from jobmesh.ids import new_id
from jobmesh.v1.job_service_pb2 import WatchJobRequest
from jobmesh.v1.job_service_pb2_grpc import JobServiceStub
from tests.acceptance.handlers import note, stumble, stumble_on
from tests.acceptance.load import Load, Work, under_load
from tests.support.fleet import Fleet, own_nats, own_postgres, plain_nats
from tests.support.wait import until

if TYPE_CHECKING:
    from jobmesh.v1.job_service_pb2_grpc import JobServiceAsyncStub

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.timeout(170)]

COUNTS = {"gateway": 2, "dispatcher": 2, "runner": 2, "scheduler": 2}
SETTINGS = {
    "JOBMESH_APP": "tests.acceptance.handlers:app",
    "JOBMESH_ACK_WAIT_SECONDS": "2",
    "JOBMESH_SESSION_LEASE_SECONDS": "4",
    "JOBMESH_LEADER_LEASE_SECONDS": "1",
}
# Longer than anything here is down.
PATIENCE = 60.0
# A wake-up that vanished is missed after 10 s, and looked for every 3 s.
HEALED_SECONDS = 45.0
BACKLOG = 600

NOT_ENDED = """
SELECT job_id, live.state, live.hold_reason, live.attempt, live.history
FROM unnest($1::uuid[]) AS wanted (job_id)
LEFT JOIN jobmesh.jobs_live AS live USING (job_id)
WHERE job_id NOT IN (SELECT job_id FROM jobmesh.jobs_history)
"""
IN_TWO_PLACES = "SELECT job_id, count(*) FROM jobmesh.jobs GROUP BY job_id HAVING count(*) > 1"
# Not one success for a job that succeeded, attempts that overlap or go back, one that ends before
# it begins.
WRONG_ATTEMPTS = """
WITH attempts AS (
    SELECT job_id, state, number, begun, ended, outcome,
        max(ended) OVER earlier AS free_from, max(number) OVER earlier AS last_number
    FROM jobmesh.jobs_history,
        unnest(attempts) WITH ORDINALITY AS past (number, runner, begun, ended, outcome)
    WINDOW earlier AS (
        PARTITION BY job_id ORDER BY ordinality ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
    )
)
SELECT job_id, array_agg((number, begun, ended, outcome)::text) FROM attempts
GROUP BY job_id, state
HAVING count(*) FILTER (WHERE outcome = 'SUCCEEDED') <> (state = 'SUCCEEDED')::int
    OR bool_or(begun < free_from) OR bool_or(ended < begun) OR bool_or(number <= last_number)
"""
WRONG_REVISIONS = """
SELECT job_id, revision, history FROM jobmesh.jobs_history
WHERE revision <> cardinality(history) OR (history[cardinality(history)]).revision <> revision
"""


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def postgres_server(ports: PortPool) -> AsyncIterator[EmbeddedPostgres]:
    async with own_postgres(ports) as server:
        yield server


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def fleet(
    tmp_path_factory: pytest.TempPathFactory, ports: PortPool, postgres_server: EmbeddedPostgres
) -> AsyncIterator[Fleet]:
    directory = tmp_path_factory.mktemp("fleet")
    async with (
        own_nats(ports) as nats,
        Fleet(directory, ports, postgres_server.dsn(), nats, COUNTS, SETTINGS) as fleet,
    ):
        yield fleet


Fault = tuple[str, Callable[[], Awaitable[None]]]


class Faults:
    """Everything that is done to the mesh, one after another, under load."""

    def __init__(
        self, fleet: Fleet, postgres: EmbeddedPostgres, mesh: jobmesh.Client, load: Load
    ) -> None:
        self._fleet = fleet
        self._mesh = mesh
        self._postgres = postgres
        self._load = load

    def all(self, choice: random.Random) -> list[Fault]:
        """In an order of `choice`; what takes longest to heal comes first."""
        names = [name for name in self._fleet.members if name.endswith("-1")]
        others: list[Fault] = [(name, partial(self.kill, name)) for name in names]
        others += [("nats", self.kill_nats), ("postgres", self.kill_postgres)]
        choice.shuffle(others)
        return [("stream", self.delete_streams), ("store", self.wipe_store), *others]

    async def kill(self, name: str) -> None:
        """The others have to do without it for a while."""
        await self._fleet[name].kill()
        await self._load.more(30)
        await self._fleet.restart(name)

    async def kill_nats(self) -> None:
        """Submissions go on without it."""
        await self._end_nats()
        await self._load.more(30)
        await self._fleet.nats.start()

    async def wipe_store(self) -> None:
        """JetStream comes back without anything."""
        await self._backlog()
        await self._end_nats()
        shutil.rmtree(self._fleet.nats.store)
        await self._fleet.nats.start()

    async def _backlog(self) -> None:
        """More than runners take at once: wake-ups lie in the stream.

        Jobs are acknowledged before they are published, which may wait for a stream made again.
        """
        jobs = await self._mesh.submit_many([(note, {"millis": 150})] * BACKLOG)
        self._load.acknowledged += [job.id for job in jobs]
        async with plain_nats(self._fleet.nats.url) as nats:

            async def some_lie_there() -> bool:
                try:
                    info = await nats.jetstream().stream_info("JOBMESH_JOBS")
                except NotFoundError:  # not made again yet
                    return False
                return info.state.messages > 0

            await until(some_lie_there, describe="wake-ups of a backlog lie in the stream")

    async def _end_nats(self) -> None:
        child = self._fleet.nats.child
        assert child is not None
        child.kill()
        await child.wait()

    async def delete_streams(self) -> None:
        """Somebody cleans up."""
        await self._backlog()
        async with plain_nats(self._fleet.nats.url) as nats:
            for stream in ("JOBMESH_JOBS", "JOBMESH_ADVISORIES", "JOBMESH_DEAD"):
                await nats.jetstream().delete_stream(stream)

    async def kill_postgres(self) -> None:
        """By SIGKILL: its children notice, and the next start recovers."""
        child = self._postgres.child
        assert child is not None
        os.kill(child.pid, signal.SIGKILL)
        await child.wait()
        await until(self._postgres_starts, 30)

    async def _postgres_starts(self) -> bool:
        try:
            await self._postgres.start()
        except DevError:  # its children are not gone yet
            return False
        return True


def mixed(choice: random.Random) -> Callable[[int], Work]:
    """Jobs that end at once, that take a moment, and that fail first."""

    def work(number: int) -> Work:
        kind = choice.random()
        if kind < 0.1:
            return stumble, {"falls": 1}
        if kind < 0.5:
            return note, {"number": number, "millis": choice.randrange(60)}
        return note, {"number": number}

    return work


async def test_no_acknowledged_job_is_lost_and_none_has_two_results(
    fleet: Fleet, postgres_server: EmbeddedPostgres
) -> None:
    seed = random.randrange(2**32)
    choice = random.Random(seed)
    done: list[str] = [f"seed {seed}"]
    async with fleet.client(patience=PATIENCE) as mesh:
        async with under_load(mesh, mixed(choice)) as load:
            for name, fault in Faults(fleet, postgres_server, mesh, load).all(choice):
                await load.more(30)
                done.append(name)
                await fault()
            await load.more(60)
        assert not load.failed, (done, str(load))
    await until(lambda: ended(fleet, load.acknowledged), HEALED_SECONDS, lambda: told(fleet, done))
    assert len(load.acknowledged) > 200
    await require_one_result_each(fleet)


def told(fleet: Fleet, done: list[str]) -> str:
    return f"{', '.join(done)}\n{fleet.trouble()}"


async def ended(fleet: Fleet, jobs: list[str]) -> bool:
    """Whether all of these jobs are terminal."""
    left = await fleet.fetch(NOT_ENDED, [UUID(job) for job in jobs])
    some = [dict(row) for row in left[:3]]
    assert not left, f"{len(left)} of {len(jobs)} have not ended, such as {some}"
    return True


async def require_one_result_each(fleet: Fleet) -> None:
    """By what is written down of all jobs: invariant 2."""
    for statement in (IN_TWO_PLACES, WRONG_ATTEMPTS, WRONG_REVISIONS):
        rows = await fleet.fetch(statement)
        assert not rows, f"{len(rows)} rows of {statement}: {rows[:3]}"


class Asking:
    """Submits under the same ids again and again; `jobs` are all answers that each has got."""

    def __init__(self, meshes: list[jobmesh.Client], label: str) -> None:
        self.jobs: dict[str, set[str]] = {}
        self._meshes = meshes
        self._label = label

    async def all_and(self, new: int) -> None:
        """Each id so far and some new ones, twice by each client and all at once."""
        self.jobs |= {new_id(): set() for _ in range(new)}
        calls = [(mesh, request) for request in self.jobs for mesh in self._meshes * 2]
        for (_, request), job in zip(
            calls, await asyncio.gather(*(self._submit(*call) for call in calls)), strict=True
        ):
            self.jobs[request].add(job)

    async def _submit(self, mesh: jobmesh.Client, request: str) -> str:
        options = mesh.with_options(request_id=request, labels={"test": self._label})
        return (await options.submit(note, number=5)).id


async def test_the_same_request_id_is_the_same_job(fleet: Fleet) -> None:
    victim, label = fleet["dispatcher-1"], new_id()
    async with (
        jobmesh.connect(fleet["gateway-1"].address, patience=PATIENCE) as one,
        jobmesh.connect(fleet["gateway-2"].address, patience=PATIENCE) as other,
    ):
        asking = Asking([one, other], label)
        await asking.all_and(20)
        # It dies once it has stored what it was asked for, and before it says so.
        await fleet.restart(victim.name, JOBMESH_FAILPOINTS="submit.after_commit=kill")
        while victim.running and len(asking.jobs) < 500:
            await asking.all_and(10)
        assert not victim.running, "it was asked for nothing"
        await fleet.restart(victim.name, JOBMESH_FAILPOINTS="")
        await asking.all_and(10)
    assert all(len(jobs) == 1 for jobs in asking.jobs.values()), asking.jobs
    count = await fleet.value(
        "SELECT count(*) FROM jobmesh.jobs WHERE labels ->> 'test' = $1", label
    )
    assert count == len(asking.jobs)


class Watcher:
    """Watches over gateways that die, without a client's help: what it saw, and how often it had
    to begin again.
    """

    def __init__(self, gateways: list[str], job_id: str) -> None:
        self._gateways = itertools.cycle(gateways)
        self._job_id = job_id
        self.revisions: list[int] = []
        self.streams = 0
        self.ended = False

    @property
    def last(self) -> int:
        return self.revisions[-1] if self.revisions else 0

    async def run(self) -> None:
        while not self.ended:
            self.streams += 1
            async with open_channel(next(self._gateways), health_check=False) as channel:
                try:
                    await self._follow(JobServiceStub(channel))
                except grpc.aio.AioRpcError as error:
                    if error.code() is not grpc.StatusCode.UNAVAILABLE:
                        raise

    async def _follow(self, jobs: JobServiceAsyncStub) -> None:
        request = WatchJobRequest(job_id=self._job_id, after_revision=self.last)
        async for event in jobs.WatchJob(request, timeout=60):
            kind = event.WhichOneof("event")
            if kind == "snapshot" and not self.revisions:
                self.revisions += [change.revision for change in event.snapshot.history]
            elif kind == "state_changed":
                assert event.revision == self.last + 1, (event, self.revisions)
                self.revisions.append(event.revision)
            elif kind == "terminal":
                assert event.revision == self.last, (event, self.revisions)
                self.ended = True
            else:
                assert kind in ("snapshot", "progress", "heartbeat", "reconnect"), event


async def by_client(mesh: jobmesh.Client, job_id: str) -> list[int]:
    """The revisions that the client's own watch told."""
    told: list[int] = []
    async for event in mesh.job(job_id).watch():
        if isinstance(event, StateChanged):
            told.append(event.change.revision)
        elif isinstance(event, Ended):
            return told
    raise AssertionError(f"the watch ended after {told}")


async def all_see_more(watchers: list[Watcher], revisions: int) -> None:
    """Wait until each has seen so many revisions more."""
    wanted = [watcher.last + revisions for watcher in watchers]
    await until(
        lambda: all(w.last >= r for w, r in zip(watchers, wanted, strict=True)),
        30,
        lambda: f"{wanted} of {[watcher.last for watcher in watchers]}",
    )


async def without_events(fleet: Fleet, watchers: list[Watcher]) -> None:
    """Let changes happen that no event tells, which are found by asking; until no job has a
    wake-up any more.
    """
    child = fleet.nats.child
    assert child is not None
    child.kill()
    await child.wait()
    await until(lambda: all_wait(fleet, len(watchers)), 20)
    await fleet.nats.start()


async def all_wait(fleet: Fleet, jobs: int) -> bool:
    """Whether all of these jobs are ready."""
    statement = "SELECT count(*) FROM jobmesh.jobs_live WHERE type = $1 AND state = 'QUEUED'"
    return bool(await fleet.value(statement, "stumble_on") == jobs)


async def test_a_watcher_sees_every_revision_and_the_end_whoever_dies(
    fleet: Fleet, tmp_path: Path
) -> None:
    enough = tmp_path / "enough"
    gateways = [gateway.address for gateway in fleet.of("gateway")]
    async with fleet.client(patience=PATIENCE) as mesh:
        jobs = await mesh.submit_many([(stumble_on, {"until": str(enough), "millis": 300})] * 6)
        # Half of them begin at either gateway.
        watchers = [
            Watcher(gateways[number % 2 :] + gateways[: number % 2], job.id)
            for number, job in enumerate(jobs)
        ]
        watching = [asyncio.create_task(watcher.run()) for watcher in watchers]
        clients = [asyncio.create_task(by_client(mesh, job.id)) for job in jobs]
        try:
            for victim in ("gateway-1", "dispatcher-1", "nats", "gateway-2", "dispatcher-2"):
                await all_see_more(watchers, 2)
                if victim == "nats":
                    await without_events(fleet, watchers)
                else:
                    await fleet.restart(victim)
            await all_see_more(watchers, 1)
            enough.touch()
            await asyncio.wait_for(asyncio.gather(*watching), 60)
            told = await asyncio.wait_for(asyncio.gather(*clients), 60)
        finally:
            for task in (*watching, *clients):
                task.cancel()
            await asyncio.gather(*watching, *clients, return_exceptions=True)
    for job, watcher, by_one in zip(jobs, watchers, told, strict=True):
        revision = await fleet.value(
            "SELECT revision FROM jobmesh.jobs_history WHERE job_id = $1", UUID(job.id)
        )
        assert watcher.revisions == list(range(1, revision + 1))
        assert by_one == watcher.revisions
        assert watcher.streams > 1, "its gateway was never killed under it"
