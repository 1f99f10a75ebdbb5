"""A deploy: every process is told to stop and is started again, and nobody suffers."""

from __future__ import annotations

import asyncio
import logging
import signal
from collections.abc import Awaitable
from contextlib import aclosing
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, TypeVar

import grpc
import pytest

import jobmesh
from jobmesh.channels import open_channel
from jobmesh.client import Change, Client, Ended, JobHandle, JobInfo, StateChanged
from jobmesh.errors import from_rpc_error
from jobmesh.v1.job_service_pb2_grpc import JobServiceStub
from tests.acceptance import everyday
from tests.support.effort import full
from tests.support.mesh import DevMesh
from tests.support.wait import until
from tests.support.watchers import Watcher

if TYPE_CHECKING:
    from jobmesh.v1.job_service_pb2_grpc import JobServiceAsyncStub

log = logging.getLogger(__name__)

T = TypeVar("T")

WAIT = 60.0
ROUNDS = 5
# A client finds what was started again a second after it says that it is ready; if the other one
# stops within that second, the client's patience bridges the gap. It must not hide more than that.
SLOWEST_CALL_SECONDS = 5.0
# Less than the ack wait, 10 s: what a dispatcher had pulled when it stopped it leaves to the other.
SLOWEST_RESULT_SECONDS = 8.0


async def restarted(mesh: DevMesh, *names: str) -> None:
    """SIGTERM to processes, all at once; back when others in their place serve."""
    pids = {name: mesh.kill(name, signal.SIGTERM) for name in names}
    for name, pid in pids.items():
        await mesh.serves_again(name, pid, WAIT)
        assert f"{name} (process {pid}) ended with code 0" in mesh.log("dev")


async def ends(jobs: list[JobHandle]) -> list[JobInfo]:
    return await asyncio.gather(*(job.wait(WAIT) for job in jobs))


def interruption(job: JobInfo) -> Change | None:
    """When its runner gave it back."""
    return next((change for change in job.history if change.reason == "INTERRUPTED"), None)


@pytest.mark.timeout(150)
async def test_a_runner_finishes_what_runs_and_gives_back_what_waits(
    client: Client, mesh: DevMesh
) -> None:
    for _ in range(ROUNDS):
        if await stop_runner_under_load(client, mesh):
            return
    pytest.fail(f"no job waited in the runner, {ROUNDS} times over")


async def stop_runner_under_load(client: Client, mesh: DevMesh) -> bool:
    """Whether jobs were given back."""
    long = [await client.submit(everyday.ticker, seconds=3, pause=0.1) for _ in range(6)]
    brief = await client.submit_many((everyday.brief, {"seconds": 0.05}) for _ in range(600))
    await brief[350].wait(WAIT)
    stopped = datetime.now(UTC)
    await restarted(mesh, "runner-1")
    infos = await ends([*brief, *long])
    assert {(info.state, info.failures, info.crashes) for info in infos} == {("SUCCEEDED", 0, 0)}
    running = [info for info in infos[len(brief) :] if info.attempt == 1]
    assert any(info.runner_id == "runner-1" for info in running)
    waited = [info for info in infos if interruption(info)]
    for info in waited:
        await require_prompt(client, info, stopped)
    return bool(waited)


async def require_prompt(client: Client, job: JobInfo, stopped: datetime) -> None:
    """The job had not begun, and began elsewhere soon after."""
    given_back, ended = await client.job(job.id).attempts()
    assert (given_back.outcome, given_back.start_time) == ("INTERRUPTED", None)
    assert (given_back.runner_id, ended.runner_id) == ("runner-1", "runner-2")
    change = interruption(job)
    assert change is not None
    assert change.time is not None
    assert ended.start_time is not None
    assert change.time - stopped < timedelta(seconds=1)
    assert ended.start_time - stopped < timedelta(seconds=2)


@pytest.mark.timeout(90)
async def test_what_outlives_the_grace_of_its_runner_goes_on_elsewhere(
    client: Client, mesh: DevMesh
) -> None:
    """From its checkpoint, at once, and without being charged for it."""
    jobs = [await client.submit(everyday.count_up, steps=60) for _ in range(6)]
    await until(lambda: all_have_checkpoints(jobs), WAIT)
    await restarted(mesh, "runner-1")
    results = [await job.result(WAIT) for job in jobs]
    infos = await ends(jobs)
    assert {(info.failures, info.crashes) for info in infos} == {(0, 0)}
    moved = [
        (info, result)
        for info, result in zip(infos, results, strict=True)
        if interruption(info) is not None
    ]
    assert moved
    for info, result in moved:
        assert result["attempt"] == 2
        assert 5 < result["from"] < 60
        given_back, again = await client.job(info.id).attempts()
        assert (given_back.outcome, given_back.runner_id) == ("INTERRUPTED", "runner-1")
        assert given_back.end_time is not None
        assert again.start_time is not None
        assert again.start_time - given_back.end_time < timedelta(seconds=2)


async def all_have_checkpoints(jobs: list[JobHandle]) -> bool:
    return all([(await job.get()).checkpoint for job in jobs])


@pytest.mark.timeout(90)
async def test_watchers_of_a_gateway_that_stops_are_sent_elsewhere(
    client: Client, mesh: DevMesh
) -> None:
    job = await client.submit(everyday.not_now, times=25, seconds=0.02)
    first, second = mesh.content()["gateway"]
    watchers = [Watcher(job.id) for _ in range(5)]
    async with open_channel(first, health_check=False) as one, open_channel(second) as other:
        stub: JobServiceAsyncStub = JobServiceStub(one)
        watching = asyncio.gather(*(sent_away(watcher, stub) for watcher in watchers))
        by_client = asyncio.create_task(revisions(job))
        await until(lambda: all(watcher.last > 10 for watcher in watchers), WAIT)
        await restarted(mesh, "gateway-1")
        assert {error.reason for error in await watching} == {"DRAINING"}
        assert [watcher.reconnects for watcher in watchers] == [1] * 5
        left = watchers[0].last
        for watcher in watchers:
            async for _ in watcher.stream(JobServiceStub(other)):
                pass
            watcher.require_whole()
    assert watchers[0].last > left
    assert await by_client == list(range(1, watchers[0].last + 1))


async def sent_away(watcher: Watcher, jobs: JobServiceAsyncStub) -> jobmesh.JobmeshError:
    """How a stream ended before its job did."""
    try:
        async for event in watcher.stream(jobs):
            assert not watcher.reconnects or event.HasField("reconnect"), "nothing comes after it"
    except grpc.aio.AioRpcError as error:
        return from_rpc_error(error)
    raise AssertionError("the job ended first")


async def revisions(job: JobHandle) -> list[int]:
    """Those that the client tells of, to the end."""
    async with aclosing(job.watch()) as events:
        return [event.change.revision async for event in events if isinstance(event, StateChanged)]


@pytest.mark.timeout(full(900, 180))
async def test_a_rolling_restart_under_load_shows_no_client_anything(
    client: Client, mesh: DevMesh
) -> None:
    """One of each service at a time, all four services at once; each caller checks its answers."""
    stop, told = asyncio.Event(), Told()
    watched = await client.submit(everyday.ticker, seconds=full(200, 8), pause=0.05)
    callers = (caller(client, number, stop, told) for number in range(4))
    load = asyncio.gather(asker(watched, stop, told), *callers)
    watching = asyncio.create_task(progress_until_end(watched))
    rounds = 0
    while rounds < full(10, 1) or (len(told.jobs) <= 20 and not load.done()):
        for number in (1, 2):
            await restarted(mesh, *(f"{service}-{number}" for service in SERVICES))
        rounds += 1
    stop.set()
    await load
    log.info("in %d rounds: %s", rounds, told)
    assert len(told.jobs) > 20
    assert max(told.calls) < SLOWEST_CALL_SECONDS, str(told)
    assert max(told.results) < SLOWEST_RESULT_SECONDS, str(told)
    for info in await ends(told.jobs):
        assert (info.state, info.failures, info.crashes) == ("SUCCEEDED", 0, 0)
    end = await watching
    assert (end.state, end.failures, end.crashes) == ("SUCCEEDED", 0, 0)


SERVICES = ("gateway", "dispatcher", "runner", "scheduler")


@dataclass
class Told:
    """What the callers have been answered, and how many seconds each answer took."""

    jobs: list[JobHandle] = field(default_factory=list)
    calls: list[float] = field(default_factory=list)
    results: list[float] = field(default_factory=list)

    def __str__(self) -> str:
        slowest = f"call {max(self.calls):.2f} s, result {max(self.results):.2f} s"
        return f"{len(self.jobs)} jobs; the slowest {slowest}"


async def caller(client: Client, number: int, stop: asyncio.Event, told: Told) -> None:
    """Submits, waits, reads and lists until it is told to stop; any error is the test's."""
    later = client.with_options(delay="100ms")
    while not stop.is_set():
        job = await timed(told.calls, client.submit(everyday.brief, seconds=0.02))
        assert await timed(told.results, job.result(WAIT)) == 0.02
        delayed = await timed(told.calls, later.submit(everyday.add, a=number))
        info = await timed(told.calls, delayed.get())
        assert info.state in ("SCHEDULED", "QUEUED", "RUNNING", "SUCCEEDED")
        assert await timed(told.calls, newest(client))
        assert await timed(told.results, delayed.result(WAIT)) == number + 1
        told.jobs += [job, delayed]


async def asker(job: JobHandle, stop: asyncio.Event, told: Told) -> None:
    """Reads the job all the time: what happens while all callers wait for results is seen too."""
    while not stop.is_set():
        await timed(told.calls, job.get())
        await asyncio.sleep(0.05)


async def timed(seconds: list[float], call: Awaitable[T]) -> T:
    """The answer to a call, once it is noted how long it took."""
    clock = asyncio.get_running_loop().time
    began = clock()
    answer = await call
    seconds.append(clock() - began)
    return answer


async def newest(client: Client) -> list[JobInfo]:
    return [found async for found in client.list(type="brief", limit=2)]


async def progress_until_end(job: JobHandle) -> JobInfo:
    """The end of a job, whose revisions came one by one."""
    last = 0
    async with aclosing(job.watch()) as events:
        async for event in events:
            if isinstance(event, StateChanged):
                assert event.change.revision == last + 1
                last = event.change.revision
            if isinstance(event, Ended):
                return event.job
    raise AssertionError("a watch ended without an end")
