"""Watches: every change once and in order, whatever becomes of events, NATS or dispatchers."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import grpc
import pytest

from jobmesh.channels import open_channel
from jobmesh.dev.nats import EmbeddedNats
from jobmesh.errors import BackendUnavailable, Draining, InvalidField, NotFound, from_rpc_error
from jobmesh.ids import bucket_of, new_id
from jobmesh.v1.broker_pb2 import EventBatch
from jobmesh.v1.job_pb2 import JobEvent, JobState, LogLine, Payload
from jobmesh.v1.job_service_pb2 import GetJobRequest, WaitJobRequest, WatchInclude, WatchJobRequest
from jobmesh.v1.job_service_pb2_grpc import JobServiceStub
from jobmesh_gateway import watching
from jobmesh_gateway.main import Gateway
from tests.integration.gateway.conftest import config, running
from tests.integration.gateway.peer import Peer, serving
from tests.support.wait import until

if TYPE_CHECKING:
    from jobmesh.v1.job_service_pb2_grpc import JobServiceAsyncStub

TIMEOUT = 20.0
RUNNING, RETRYING = JobState.JOB_STATE_RUNNING, JobState.JOB_STATE_RETRYING
SUCCEEDED, CANCELLED = JobState.JOB_STATE_SUCCEEDED, JobState.JOB_STATE_CANCELLED
LOG, STATES = WatchInclude.WATCH_INCLUDE_LOG, WatchInclude.WATCH_INCLUDE_STATES_ONLY


class Viewer:
    """Reads a stream into a list."""

    def __init__(self, call: AsyncIterator[JobEvent]) -> None:
        self.events: list[JobEvent] = []
        self.error: grpc.aio.AioRpcError | None = None
        self.call = call

    async def read(self) -> None:
        try:
            async for event in self.call:
                self.events.append(event)
        except grpc.aio.AioRpcError as error:
            self.error = error

    @property
    def kinds(self) -> list[str | None]:
        return [event.WhichOneof("event") for event in self.events]

    @property
    def revisions(self) -> list[int]:
        return [e.state_changed.revision for e in self.events if e.HasField("state_changed")]

    async def seen(self, *kinds: str) -> None:
        await until(lambda: self.kinds[: len(kinds)] == list(kinds), describe=lambda: self.kinds)


@asynccontextmanager
async def watch(
    jobs: JobServiceAsyncStub, job_id: str, after: int = 0, *include: WatchInclude.ValueType
) -> AsyncIterator[Viewer]:
    request = WatchJobRequest(job_id=job_id, after_revision=after, include=include)
    call = jobs.WatchJob(request, timeout=TIMEOUT)
    viewer = Viewer(call)  # type: ignore[arg-type]
    reading = asyncio.create_task(viewer.read())
    try:
        yield viewer
        await asyncio.wait_for(reading, TIMEOUT)
    finally:
        call.cancel()
        await asyncio.wait({reading})


async def test_snapshot_changes_terminal_end(peer: Peer, jobs: JobServiceAsyncStub) -> None:
    job_id = peer.add()
    async with watch(jobs, job_id) as viewer:
        await viewer.seen("snapshot")
        await until(lambda: peer.wants(job_id))
        await peer.change(job_id, RUNNING)
        await peer.progress(job_id, 1)
        await viewer.seen("snapshot", "state_changed", "progress")
        peer.jobs[job_id].result.CopyFrom(
            Payload(data=b'{"rows":3}', content_type="application/json")
        )
        await peer.change(job_id, SUCCEEDED)
    assert viewer.kinds == ["snapshot", "state_changed", "progress", "state_changed", "terminal"]
    assert [event.revision for event in viewer.events] == [1, 2, 2, 3, 3]
    assert viewer.error is None
    terminal = viewer.events[-1].terminal
    assert terminal.result.json.struct_value.fields["rows"].number_value == 3
    assert len(terminal.history) == 3


async def test_events_lost_repeated_and_reordered(peer: Peer, jobs: JobServiceAsyncStub) -> None:
    job_id = peer.add()
    async with watch(jobs, job_id) as viewer:
        await viewer.seen("snapshot")
        await until(lambda: peer.wants(job_id))
        second = peer.silently(job_id, RUNNING)
        third = peer.silently(job_id, RETRYING)
        peer.silently(job_id, JobState.JOB_STATE_QUEUED)
        fifth = peer.silently(job_id, RUNNING)
        await peer.send(third, second, third)
        await peer.send(fifth)
        await until(lambda: viewer.revisions == [2, 3, 4, 5])
        await peer.change(job_id, SUCCEEDED)
    assert viewer.revisions == [2, 3, 4, 5, 6]
    assert viewer.kinds[-1] == "terminal"


async def test_an_end_that_nobody_told_is_found_by_the_reread(
    peer: Peer, jobs: JobServiceAsyncStub
) -> None:
    job_id = peer.add()
    async with watch(jobs, job_id) as viewer:
        await viewer.seen("snapshot")
        peer.silently(job_id, RUNNING)
        peer.silently(job_id, SUCCEEDED)
    assert viewer.kinds == ["snapshot", "state_changed", "state_changed", "terminal"]


async def test_a_resumed_watch_misses_nothing(peer: Peer, jobs: JobServiceAsyncStub) -> None:
    job_id = peer.add()
    for state in (RUNNING, RETRYING, RUNNING):
        peer.silently(job_id, state)
    async with watch(jobs, job_id, 2) as viewer:
        await viewer.seen("state_changed", "state_changed", "snapshot")
        await peer.change(job_id, SUCCEEDED)
    assert viewer.revisions == [3, 4, 5]
    async with watch(jobs, job_id, 2) as again:
        pass
    assert again.revisions == [3, 4, 5]
    assert again.kinds[-1] == "terminal"
    async with watch(jobs, job_id, 5) as late:
        pass
    assert late.kinds == ["terminal"]


async def test_only_what_was_asked_for_is_sent(peer: Peer, jobs: JobServiceAsyncStub) -> None:
    job_id = peer.add()
    async with watch(jobs, job_id, 0, LOG) as lines, watch(jobs, job_id, 0, STATES) as states:
        await lines.seen("snapshot")
        await states.seen("snapshot")
        await until(lambda: peer.wants(job_id))
        await peer.progress(job_id, 1)
        await peer.log(job_id, "hello")
        await peer.change(job_id, CANCELLED)
    assert lines.kinds == ["snapshot", "log", "state_changed", "terminal"]
    assert lines.events[1].log.message == "hello"
    assert states.kinds == ["snapshot", "state_changed", "terminal"]


async def test_what_cannot_be_watched(jobs: JobServiceAsyncStub) -> None:
    async with watch(jobs, new_id()) as viewer:
        pass
    assert viewer.error is not None
    assert isinstance(from_rpc_error(viewer.error), NotFound)
    async with watch(jobs, "nonsense", -1, 99) as viewer:  # type: ignore[arg-type]
        pass
    assert viewer.error is not None
    error = from_rpc_error(viewer.error)
    assert isinstance(error, InvalidField)
    assert [f for f, _ in error.violations] == ["job_id", "after_revision", "include[0]"]


async def test_an_idle_stream_shows_that_it_lives(
    peer: Peer, jobs: JobServiceAsyncStub, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watching, "HEARTBEAT_SECONDS", 0.3)
    job_id = peer.add()
    async with watch(jobs, job_id) as viewer:
        await viewer.seen("snapshot", "heartbeat", "heartbeat")
        peer.silently(job_id, SUCCEEDED)
    assert viewer.kinds[-1] == "terminal"


async def test_a_client_that_leaves_frees_everything(
    peer: Peer, gateway: Gateway, jobs: JobServiceAsyncStub
) -> None:
    job_id = peer.add()
    calls = [jobs.WatchJob(WatchJobRequest(job_id=job_id), timeout=TIMEOUT) for _ in range(20)]
    await asyncio.gather(*(call.read() for call in calls))
    assert len(gateway.watchers) == 20
    await until(lambda: peer.wants(job_id))
    for call in calls:
        call.cancel()
    await until(lambda: len(gateway.watchers) == 0)
    await until(lambda: not peer.wants(job_id))


async def test_a_stopping_gateway_sends_its_watchers_elsewhere(
    peer: Peer, gateway: Gateway, jobs: JobServiceAsyncStub
) -> None:
    job_id = peer.add()
    async with watch(jobs, job_id) as viewer:
        await viewer.seen("snapshot")
        waiting = asyncio.ensure_future(
            jobs.WaitJob(WaitJobRequest(job_id=job_id), timeout=TIMEOUT)
        )
        await until(lambda: len(gateway.watchers) == 2)
        await asyncio.wait_for(gateway.server.begin_drain(), 5)
    assert viewer.kinds == ["snapshot", "reconnect"]
    assert viewer.error is not None
    assert viewer.error.code() is grpc.StatusCode.UNAVAILABLE
    assert isinstance(from_rpc_error(viewer.error), Draining)
    # The channel tries again by itself, at the only gateway that there is.
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await waiting
    assert caught.value.code() is grpc.StatusCode.UNAVAILABLE


async def test_changes_are_seen_while_nats_is_down_and_after(
    peer: Peer, gateway: Gateway, jobs: JobServiceAsyncStub, nats_server: EmbeddedNats
) -> None:
    job_id = peer.add()
    async with watch(jobs, job_id) as viewer:
        await viewer.seen("snapshot")
        await nats_server.stop()
        await until(lambda: not gateway.feed.connected)
        peer.silently(job_id, RUNNING)
        await until(lambda: viewer.revisions == [2])
        await nats_server.start()
        await until(lambda: gateway.feed.connected)
        await until(lambda: peer.nats.is_connected and peer.wants(job_id))
        await peer.progress(job_id, 7)
        await until(lambda: viewer.kinds[-1] == "progress")
        await peer.change(job_id, SUCCEEDED)
    assert viewer.revisions == [2, 3]
    assert viewer.kinds[-1] == "terminal"


async def test_a_gateway_starts_and_watches_without_nats() -> None:
    peer = Peer()  # type: ignore[abstract]  # without what only leaders call
    async with (
        serving(peer) as server,
        running(
            Gateway(config(server.address, "nats://127.0.0.1:1"), drain_seconds=0.0)
        ) as gateway,
    ):
        channel = open_channel(gateway.server.address)
        job_id = peer.add()
        stub: JobServiceAsyncStub = JobServiceStub(channel)
        async with watch(stub, job_id) as viewer:
            await viewer.seen("snapshot")
            peer.silently(job_id, RUNNING)
            await until(lambda: viewer.revisions == [2])
            peer.silently(job_id, SUCCEEDED)
        assert viewer.kinds[-1] == "terminal"
        await channel.close(None)


async def test_an_outage_of_the_dispatchers_is_sat_out(
    peer: Peer, jobs: JobServiceAsyncStub
) -> None:
    job_id = peer.add()
    async with watch(jobs, job_id) as viewer:
        await viewer.seen("snapshot")
        await until(lambda: peer.wants(job_id))
        peer.failure = BackendUnavailable("database")
        await peer.change(job_id, RUNNING)
        await peer.change(job_id, SUCCEEDED)
        await until(lambda: viewer.revisions == [2, 3])
        reads = len(peer.calls["ReadJobs"])
        await until(lambda: len(peer.calls["ReadJobs"]) > reads)
        peer.failure = None
    assert viewer.kinds == ["snapshot", "state_changed", "state_changed", "terminal"]


async def test_an_outage_that_does_not_end_ends_the_watch(
    peer: Peer, jobs: JobServiceAsyncStub, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watching, "OUTAGE_SECONDS", 0.5)
    job_id = peer.add()
    async with watch(jobs, job_id) as viewer:
        await viewer.seen("snapshot")
        peer.failure = BackendUnavailable("database")
    assert viewer.error is not None
    assert isinstance(from_rpc_error(viewer.error), BackendUnavailable)


async def test_a_slow_reader_gets_the_latest_progress_and_every_change(
    peer: Peer, gateway: Gateway
) -> None:
    """It stops reading for a while: of progress it misses some, of changes nothing."""
    small_window = (("grpc.http2.bdp_probe", 0), ("grpc.http2.lookahead_bytes", 65_536))
    channel = open_channel(gateway.server.address, options=small_window)
    stub: JobServiceAsyncStub = JobServiceStub(channel)
    job_id = peer.add()
    call = stub.WatchJob(WatchJobRequest(job_id=job_id), timeout=TIMEOUT)
    stream = aiter(call)
    await anext(stream)
    await until(lambda: peer.wants(job_id))
    for current in range(1, 501):
        await peer.progress(job_id, current, "x" * 900)
    await peer.change(job_id, RUNNING)
    await peer.change(job_id, SUCCEEDED)
    viewer = Viewer(stream)
    await viewer.read()
    await channel.close(None)
    assert viewer.revisions == [2, 3]
    assert viewer.kinds[-1] == "terminal"
    progress = [event.progress.current for event in viewer.events if event.HasField("progress")]
    assert progress == sorted(progress)
    assert len(progress) < 500
    assert progress[-1] == 500


async def test_a_watcher_too_slow_for_changes_is_ended_and_resumes(
    peer: Peer, gateway: Gateway, jobs: JobServiceAsyncStub
) -> None:
    job_id = peer.add()
    async with watch(jobs, job_id) as viewer:
        await viewer.seen("snapshot")
        await until(lambda: peer.wants(job_id))
        # More changes at once than wait for a watcher: they arrive in one message.
        events = [peer.silently(job_id, (RUNNING, RETRYING)[i % 2]) for i in range(400)]
        await peer.send(*events)
    assert viewer.kinds[-1] == "reconnect"
    assert viewer.error is not None
    assert viewer.error.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
    peer.silently(job_id, SUCCEEDED)
    async with watch(jobs, job_id, viewer.events[-1].revision) as again:
        pass
    assert viewer.revisions + again.revisions == list(range(2, 403))
    assert again.kinds[-1] == "terminal"


async def test_a_burst_of_events_does_not_hold_up_other_calls(
    peer: Peer, gateway: Gateway, jobs: JobServiceAsyncStub
) -> None:
    """What has come in is worked off in turns: a call in between waits for one message at most."""
    job_id = peer.add()
    other = peer.add()
    async with watch(jobs, job_id, 0, LOG) as viewer:
        await viewer.seen("snapshot")
        await until(lambda: peer.wants(job_id))
        subject = f"jm.ev.{bucket_of(job_id)}"
        lines = [JobEvent(job_id=job_id, log=LogLine(sequence=n + 1)) for n in range(20_000)]
        delivered: list[int] = []
        deliver = gateway.watchers.deliver

        def count(events: Iterable[JobEvent]) -> None:
            delivered.append(1)
            deliver(events)

        gateway.watchers.deliver = count  # type: ignore[method-assign]
        for start in range(0, len(lines), 2):
            batch = EventBatch(events=lines[start : start + 2])
            await peer.nats.publish(subject, batch.SerializeToString())
        await peer.nats.flush(10)
        await jobs.GetJob(GetJobRequest(job_id=other), timeout=TIMEOUT)
        assert len(delivered) < 10_000
        await until(lambda: len(delivered) == 10_000)
        await peer.change(job_id, SUCCEEDED)
    assert viewer.events[-2].state_changed.revision == 2
