"""What happens to a job is told as it happens, whatever happens to the one who is told."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from google.protobuf.duration_pb2 import Duration

import jobmesh
from examples.flights.app import import_flights
from jobmesh.channels import open_channel, split_address
from jobmesh.client import Client, Ended, Event, JobHandle, ProgressMade, StateChanged
from jobmesh.errors import NotFound
from jobmesh.ids import new_id
from jobmesh.v1.job_pb2 import JobState
from jobmesh.v1.job_service_pb2 import ReadLogRequest, WaitJobRequest, WatchInclude, WatchJobRequest
from jobmesh.v1.job_service_pb2_grpc import JobServiceStub
from tests.acceptance import everyday
from tests.support.everyday import is_running
from tests.support.mesh import DevMesh
from tests.support.proxy import TcpProxy
from tests.support.wait import until
from tests.support.watchers import Watcher

if TYPE_CHECKING:
    from jobmesh.v1.job_service_pb2_grpc import JobServiceAsyncStub

WAIT = 30.0
STATES_ONLY = WatchInclude.WATCH_INCLUDE_STATES_ONLY
PROGRESS = WatchInclude.WATCH_INCLUDE_PROGRESS


@asynccontextmanager
async def stub(address: str) -> AsyncIterator[JobServiceAsyncStub]:
    async with open_channel(address, health_check=False) as channel:
        yield JobServiceStub(channel)


@asynccontextmanager
async def proxied(mesh: DevMesh) -> AsyncIterator[TcpProxy]:
    async with TcpProxy(*split_address(mesh.gateway)) as proxy:
        yield proxy


async def restless(client: Client, times: int = 15) -> JobHandle:
    """A job that changes its state several times a second, about `times` / 5 seconds long."""
    return await client.submit(everyday.not_now, times=times, seconds=0.02)


def all_of(times: int) -> int:
    """The last revision of such a job."""
    return 1 + 3 * times + 2


async def told_by_client(job: JobHandle) -> list[int]:
    """The revisions that the client tells, to the end."""
    async with aclosing(job.watch()) as events:
        seen = [event async for event in events]
    assert isinstance(seen[-1], Ended)
    return [event.change.revision for event in seen if isinstance(event, StateChanged)]


async def test_the_import_is_seen_to_move_at_least_once_a_second(client: Client) -> None:
    job = await client.submit(import_flights, batch_rows=1000)
    clock = asyncio.get_running_loop().time
    times, rows = [], []
    async with aclosing(job.watch()) as events:
        async for event in events:
            assert not isinstance(event, Ended), event
            if isinstance(event, ProgressMade):
                times.append(clock())
                rows.append(event.progress.current)
            if times and clock() - times[0] > 4:
                break
    assert all(later - earlier <= 1.0 for earlier, later in pairwise(times))
    assert all(later > earlier for earlier, later in pairwise(rows))
    assert rows[-1] > 5000
    await job.cancel()
    info = await job.wait(WAIT)
    assert (info.state, info.attempt) == ("CANCELLED", 1)
    assert info.checkpoint["next_row"] >= rows[-1]


async def test_a_watcher_that_leaves_at_any_moment_and_comes_back(
    client: Client, mesh: DevMesh
) -> None:
    """To either gateway, with or without progress."""
    moments = random.Random(2)
    job = await restless(client)
    watcher, streams = Watcher(job.id), 0
    first, second = mesh.content()["gateway"]
    async with stub(first) as one, stub(second) as other:
        while watcher.end is None:
            streams += 1
            jobs, kind = moments.choice([one, other]), moments.choice([STATES_ONLY, PROGRESS])
            left = moments.randrange(8)
            async with aclosing(watcher.stream(jobs, kind)) as events:
                async for _ in events:
                    if (left := left - 1) < 0:
                        break
            await asyncio.sleep(moments.random() * 0.1)
    watcher.require_whole()
    assert watcher.last == all_of(15)
    assert streams > 5


async def test_a_watcher_whose_link_is_cut_again_and_again(client: Client, mesh: DevMesh) -> None:
    moments = random.Random(3)
    job = await restless(client)
    async with proxied(mesh) as proxy, jobmesh.connect(proxy.address) as far:
        watching = asyncio.create_task(told_by_client(far.job(job.id)))
        cuts = 0
        while not (await job.get()).done:
            await asyncio.sleep(moments.random() * 0.4)
            cuts += bool(proxy.links)
            proxy.drop()
        assert await asyncio.wait_for(watching, WAIT) == list(range(1, all_of(15) + 1))
        assert cuts > 2


async def test_watchers_of_a_gateway_that_is_killed(client: Client, mesh: DevMesh) -> None:
    job = await restless(client, times=22)
    both = ",".join(mesh.content()["gateway"])
    async with jobmesh.connect(both) as one, jobmesh.connect(both) as other:
        watchers = [
            asyncio.create_task(told_by_client(each.job(job.id)))
            for each in (one, other)
            for _ in range(3)
        ]
        await until(lambda: has_revision(job, 12), WAIT)
        pid = mesh.kill("gateway-1")
        told = await asyncio.wait_for(asyncio.gather(*watchers), WAIT)
    assert told == [list(range(1, all_of(22) + 1))] * 6
    await mesh.serves_again("gateway-1", pid)


async def has_revision(job: JobHandle, revision: int) -> bool:
    return (await job.get()).revision >= revision


async def test_two_gateways_tell_the_same(client: Client, mesh: DevMesh) -> None:
    job = await restless(client, times=6)
    watchers = [Watcher(job.id) for _ in range(2)]

    async def read(watcher: Watcher, address: str) -> None:
        async with stub(address) as jobs:
            async for _ in watcher.stream(jobs, STATES_ONLY):
                pass

    await asyncio.gather(*map(read, watchers, mesh.content()["gateway"]))
    for watcher in watchers:
        watcher.require_whole()
    assert watchers[0].changes == watchers[1].changes


@pytest.mark.parametrize(
    ("after", "kinds"),
    [
        (0, ["snapshot", "terminal"]),
        (1, ["state_changed", "state_changed", "terminal"]),
        (3, ["terminal"]),
        (1000, ["terminal"]),
    ],
)
async def test_watchers_of_a_job_that_has_ended(
    client: Client, jobs: JobServiceAsyncStub, after: int, kinds: list[str]
) -> None:
    job = await client.submit(everyday.add, a=1)
    await job.result(WAIT)
    request = WatchJobRequest(job_id=job.id, after_revision=after)
    events = [event async for event in jobs.WatchJob(request, timeout=WAIT)]
    assert [event.WhichOneof("event") for event in events] == kinds
    assert events[-1].terminal.result.json.number_value == 2
    assert events[-1].revision == 3


async def test_a_watcher_of_a_job_that_does_not_exist(client: Client) -> None:
    with pytest.raises(NotFound):
        await told_by_client(client.job(new_id()))
    with pytest.raises(NotFound):
        await client.job(new_id()).wait(1)


async def test_a_watcher_of_a_job_that_is_retried_meanwhile(
    client: Client, jobs: JobServiceAsyncStub
) -> None:
    """The watch that began before the retry ends with the first end; a new one goes on."""
    options = client.with_options(retry=jobmesh.Retry(max_attempts=1))
    job = await options.submit(everyday.pick, names=["a"], index=1)
    watcher = Watcher(job.id)
    async for _ in watcher.stream(jobs, STATES_ONLY):
        pass
    watcher.require_whole()
    await job.retry()
    watcher.end = None
    async for _ in watcher.stream(jobs, STATES_ONLY):
        pass
    watcher.require_whole()
    assert watcher.last == 6
    assert watcher.states.count(JobState.JOB_STATE_DEAD) == 2


async def test_waiting(client: Client, jobs: JobServiceAsyncStub, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    job = await client.submit(everyday.hold, path=str(gate))
    clock = asyncio.get_running_loop().time

    async def wait(seconds: float) -> tuple[JobState.ValueType, float]:
        timeout = Duration()
        timeout.FromMilliseconds(round(seconds * 1000))
        began = clock()
        found = await jobs.WaitJob(WaitJobRequest(job_id=job.id, timeout=timeout), timeout=WAIT)
        return found.state, clock() - began

    state, took = await wait(0)
    assert state in (JobState.JOB_STATE_QUEUED, JobState.JOB_STATE_RUNNING)
    assert took < 1.0
    await until(lambda: is_running(job), WAIT)
    to_the_end = asyncio.create_task(wait(WAIT))
    state, took = await wait(0.4)  # so that the other call has long come to wait
    assert state == JobState.JOB_STATE_RUNNING
    assert 0.4 <= took < 1.5
    gate.touch()
    state, took = await to_the_end
    assert state == JobState.JOB_STATE_SUCCEEDED
    assert took < 5
    assert (await wait(WAIT))[1] < 1.0


def told_state(event: Event) -> str:
    return event.change.state.value if isinstance(event, StateChanged) else ""


async def test_progress_is_thinned_out_and_never_goes_back(client: Client) -> None:
    """The handler reports 500 times a second."""
    job = await client.submit(everyday.ticker, seconds=2, pause=0.002)
    async with aclosing(job.watch()) as events:
        seen = [event async for event in events]
    ticks = [event.progress.current for event in seen if isinstance(event, ProgressMade)]
    end = seen[-1]
    assert isinstance(end, Ended)
    assert 10 <= len(ticks) <= 40
    last = max(n for n, event in enumerate(seen) if isinstance(event, ProgressMade))
    (end_told,) = (n for n, event in enumerate(seen) if told_state(event) == "SUCCEEDED")
    assert last < end_told, "it goes on after the end"
    assert ticks == sorted(set(ticks))
    assert end.job.progress is not None
    assert end.job.progress.current == end.job.result > 100


async def test_a_link_that_stands_still_for_a_while(client: Client, mesh: DevMesh) -> None:
    """For less than it takes to be given up."""
    job = await client.submit(everyday.ticker, seconds=3, pause=0.002)
    changing = await restless(client)
    async with proxied(mesh) as proxy, stub(proxy.address) as jobs:
        ticking, states = Watcher(job.id), Watcher(changing.id)

        async def read(watcher: Watcher) -> None:
            async for _ in watcher.stream(jobs, PROGRESS):
                pass

        reading = asyncio.gather(read(ticking), read(states))
        await until(lambda: len(ticking.progress) > 3 and states.last > 3, WAIT)
        proxy.stall()
        before = states.last
        await until(lambda: has_revision(changing, before + 6), WAIT)
        assert states.last < before + 6
        proxy.restore()
        await asyncio.wait_for(reading, WAIT)
    ticking.require_whole()
    states.require_whole()
    assert ticking.progress == sorted(set(ticking.progress))


async def test_a_log_is_followed_to_the_end(client: Client, mesh: DevMesh) -> None:
    """By the client over a link that breaks, and by two gateways without one."""
    job = await client.submit(everyday.ticker, seconds=2, pause=0.01, lines=True)

    async def follow(address: str, after: int) -> list[int]:
        async with stub(address) as jobs:
            request = ReadLogRequest(job_id=job.id, after_sequence=after, follow=True)
            return [line.sequence async for line in jobs.ReadLog(request, timeout=WAIT)]

    async def follow_over_a_bad_link() -> list[int]:
        async with proxied(mesh) as proxy, jobmesh.connect(proxy.address) as far:
            sequences = []
            async for line in far.job(job.id).logs(follow=True):
                sequences.append(line.sequence)
                if line.sequence % 50 == 0:
                    proxy.drop()
            return sequences

    first, second = mesh.content()["gateway"]
    whole, tail, patched = await asyncio.gather(
        follow(first, 0), follow(second, 40), follow_over_a_bad_link()
    )
    ticks = await job.result(WAIT)
    assert ticks > 50
    assert whole == patched == list(range(1, ticks + 1))
    assert tail == list(range(41, ticks + 1))
    assert [line.sequence async for line in job.logs()] == whole
