from __future__ import annotations

import asyncio
from functools import partial
from typing import Any

import pytest

import jobmesh
from jobmesh.client import Ended, Event, Snapshot, StateChanged
from jobmesh.client import logs as logs_module
from jobmesh.client import waiting as waiting_module
from jobmesh.errors import BackendUnavailable, Draining, NotFound, Unavailable
from jobmesh.ids import new_id
from jobmesh.states import State
from jobmesh.v1 import job_pb2
from tests.integration.client.conftest import Gateway
from tests.support.wait import until


async def collect(job: jobmesh.JobHandle, into: list[Event]) -> None:
    async for event in job.watch():
        into.append(event)  # noqa: PERF401 (looked at meanwhile)


def has_told(events: list[Event], revision: int) -> bool:
    return revision in revisions(events)


def has_waited(gateway: Gateway, calls: int, waiting: asyncio.Task[Any]) -> bool:
    return gateway.jobs.calls["WaitJob"] >= calls or waiting.done()


def has_read(gateway: Gateway, calls: int, reading: asyncio.Task[Any]) -> bool:
    return gateway.jobs.calls["ReadLog"] >= calls or reading.done()


async def messages(job: jobmesh.JobHandle) -> list[str]:
    return [line.message async for line in job.logs(follow=True)]


def revisions(events: list[Event]) -> list[int]:
    return [event.change.revision for event in events if isinstance(event, StateChanged)]


async def test_a_watch_tells_everything_until_the_end(
    gateway: Gateway, mesh: jobmesh.Client
) -> None:
    job = await mesh.submit("t")
    events: list[Event] = []
    watching = asyncio.create_task(collect(job, events))
    await until(lambda: events, describe="the snapshot")
    await gateway.jobs.finish(job.id, b'{"rows":3}')
    await watching
    assert isinstance(events[0], Snapshot)
    assert revisions(events) == [1, 2, 3]
    assert isinstance(events[-1], Ended)
    assert events[-1].job.result == {"rows": 3}


async def test_a_watch_that_is_cut_off_again_and_again_misses_no_change(
    gateway: Gateway, mesh: jobmesh.Client
) -> None:
    job = await mesh.submit("t")
    events: list[Event] = []
    watching = asyncio.create_task(collect(job, events))
    await until(lambda: gateway.jobs.watches, describe="a watch")
    for _ in range(4):
        gateway.proxy.cut()
        await gateway.jobs.move(job.id, job_pb2.JOB_STATE_RUNNING)
        await gateway.jobs.move(job.id, job_pb2.JOB_STATE_QUEUED)
        gateway.proxy.restore()
        known = gateway.jobs.jobs[job.id].revision
        await until(partial(has_told, events, known), describe=lambda: events)
    await gateway.jobs.finish(job.id)
    await watching
    assert revisions(events) == list(range(1, 12))
    assert sum(isinstance(event, Snapshot) for event in events) == 1


async def test_a_watch_goes_on_elsewhere_when_its_gateway_drains_or_forgets_it(
    gateway: Gateway, mesh: jobmesh.Client
) -> None:
    handle = await mesh.submit("t")
    gateway.jobs.fail = [Draining()]
    events: list[Event] = []
    watching = asyncio.create_task(collect(handle, events))
    await until(lambda: revisions(events) == [1], describe="the first change")
    await gateway.jobs.end_all_streams()
    gateway.jobs.end_streams.clear()
    await gateway.jobs.finish(handle.id)
    await watching
    assert revisions(events) == [1, 2, 3]


async def test_a_watch_can_begin_after_a_revision(gateway: Gateway, mesh: jobmesh.Client) -> None:
    job = await mesh.submit("t")
    await gateway.jobs.finish(job.id)
    events = [event async for event in job.watch(after_revision=2)]
    assert revisions(events) == [3]
    assert gateway.jobs.watches == [2]


async def test_a_watch_gives_up_when_the_mesh_stays_away(gateway: Gateway) -> None:
    async with jobmesh.connect(gateway.address, patience=0.1, timeout=2) as mesh:
        job = await mesh.submit("t")
        events = job.watch()
        assert isinstance(await anext(events), Snapshot)
        gateway.proxy.cut()
        began = asyncio.get_running_loop().time()
        with pytest.raises(Unavailable, match="cannot reach the mesh"):
            async for _ in events:
                pass
        assert asyncio.get_running_loop().time() - began > 0.5


async def test_a_job_that_does_not_exist_cannot_be_watched(mesh: jobmesh.Client) -> None:
    with pytest.raises(NotFound, match="no such job"):
        await anext(mesh.job(new_id()).watch())


async def test_an_unknown_kind_of_event_is_refused_at_once(mesh: jobmesh.Client) -> None:
    with pytest.raises(ValueError, match="progress, log, checkpoint"):
        mesh.job(new_id()).watch(include=["weather"])


async def test_a_result_is_waited_for(gateway: Gateway, mesh: jobmesh.Client) -> None:
    job = await mesh.submit("t")
    waiting = asyncio.create_task(job.result(timeout=10, as_type=dict[str, int]))
    await gateway.jobs.finish(job.id, b'{"rows":3}')
    assert await waiting == {"rows": 3}


async def test_waiting_survives_a_lost_connection(gateway: Gateway, mesh: jobmesh.Client) -> None:
    job = await mesh.submit("t")
    waiting = asyncio.create_task(job.wait())
    await until(lambda: gateway.proxy.links, describe="a connection")
    gateway.proxy.drop()
    await gateway.jobs.finish(job.id)
    assert (await waiting).state is State.SUCCEEDED


async def test_waiting_survives_an_outage_at_the_end_of_a_call(
    gateway: Gateway, mesh: jobmesh.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(waiting_module, "LONGEST_CALL", 0.1)
    monkeypatch.setattr(waiting_module, "MARGIN", 0.1)
    job = await mesh.submit("t")
    result = asyncio.create_task(job.result())
    await until(lambda: gateway.jobs.calls["WaitJob"])
    gateway.proxy.cut()
    accepted = gateway.proxy.accepted
    await until(lambda: gateway.proxy.accepted >= accepted + 3 or result.done())
    await gateway.jobs.finish(job.id, b'{"rows":3}')
    gateway.proxy.restore()
    assert await result == {"rows": 3}


async def test_waiting_survives_a_gateway_that_does_not_answer(
    gateway: Gateway, mesh: jobmesh.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(waiting_module, "LONGEST_CALL", 0.1)
    monkeypatch.setattr(waiting_module, "MARGIN", 0.1)
    job = await mesh.submit("t")
    gateway.jobs.hold.clear()
    result = asyncio.create_task(job.result())
    await until(lambda: gateway.jobs.calls["WaitJob"] >= 3 or result.done())
    await gateway.jobs.finish(job.id)
    gateway.jobs.hold.set()
    assert await result is None


async def test_each_answer_gives_whoever_waits_patience_anew(
    gateway: Gateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(waiting_module, "LONGEST_CALL", 0.05)
    async with jobmesh.connect(gateway.address, patience=0.2) as mesh:
        job = await mesh.submit("t")
        result = asyncio.create_task(job.result())
        for _ in range(4):
            # As many as gRPC takes for a failed call.
            gateway.jobs.fail += [BackendUnavailable("dispatcher", retry_after=0.1)] * 4
            await until(lambda: not gateway.jobs.fail or result.done())
            calls = gateway.jobs.calls["WaitJob"]
            await until(partial(has_waited, gateway, calls + 2, result))
        await gateway.jobs.finish(job.id)
        assert await result is None


async def test_waiting_gives_up_when_the_mesh_stays_away(gateway: Gateway) -> None:
    async with jobmesh.connect(gateway.address, patience=0.3) as mesh:
        job = await mesh.submit("t")
        gateway.proxy.cut()
        with pytest.raises(Unavailable, match="cannot reach the mesh"):
            await job.wait()


async def test_waiting_ends_at_its_time_also_while_the_mesh_is_away(
    gateway: Gateway, mesh: jobmesh.Client
) -> None:
    job = await mesh.submit("t")
    gateway.proxy.cut()
    began = asyncio.get_running_loop().time()
    with pytest.raises(Unavailable, match="cannot reach the mesh"):
        await job.wait(timeout=0.3)
    assert asyncio.get_running_loop().time() - began < 5


async def test_waiting_ends_at_its_time(mesh: jobmesh.Client) -> None:
    job = await mesh.submit("t")
    with pytest.raises(TimeoutError, match=r"still QUEUED after 0.2 s"):
        await job.result(timeout=0.2)


async def test_a_failed_and_a_cancelled_job_have_no_result(
    gateway: Gateway, mesh: jobmesh.Client
) -> None:
    job, other = await mesh.submit("t"), await mesh.submit("t")
    gateway.jobs.jobs[job.id].error.type = "ValueError"
    await gateway.jobs.move(job.id, job_pb2.JOB_STATE_DEAD)
    with pytest.raises(jobmesh.JobFailed, match="ValueError"):
        await job.result()
    await other.cancel("not needed")
    with pytest.raises(jobmesh.JobWasCancelled, match="not needed"):
        await other.result()


async def test_a_log_is_read_on_where_a_lost_stream_ended(
    gateway: Gateway, mesh: jobmesh.Client
) -> None:
    job = await mesh.submit("t")
    gateway.jobs.lines[job.id] = [
        job_pb2.LogLine(sequence=n, message=f"line {n}") for n in range(1, 6)
    ]
    lines = job.logs(after_sequence=1)
    first = await anext(lines)
    gateway.jobs.fail = [Draining()]
    rest = [line async for line in lines]
    assert [line.message for line in [first, *rest]] == [f"line {n}" for n in range(2, 6)]


async def test_a_followed_log_survives_losses_of_its_gateway_and_goes_on(
    gateway: Gateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(logs_module, "LIVED_SECONDS", 0.0)
    async with jobmesh.connect(gateway.address, patience=0, timeout=10) as mesh:
        job = await mesh.submit("t")
        reading = asyncio.create_task(messages(job))
        for number in range(1, 10):  # gRPC itself makes up for three
            await until(partial(has_read, gateway, number, reading))
            gateway.proxy.drop()
        gateway.jobs.lines[job.id] = [job_pb2.LogLine(sequence=1, message="at last")]
        await gateway.jobs.finish(job.id)
        assert await reading == ["at last"]


async def test_a_log_is_given_up_when_the_mesh_stays_away(gateway: Gateway) -> None:
    async with jobmesh.connect(gateway.address, patience=0.3) as mesh:
        job = await mesh.submit("t")
        gateway.proxy.cut()
        with pytest.raises(Unavailable, match="cannot reach the mesh"):
            await messages(job)
