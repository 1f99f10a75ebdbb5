"""A gateway and a real dispatcher, on PostgreSQL and NATS: what callers rely on, end to end."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from typing import TYPE_CHECKING, Any

import grpc
import pytest
from google.protobuf.duration_pb2 import Duration
from google.protobuf.field_mask_pb2 import FieldMask
from google.protobuf.timestamp_pb2 import Timestamp

from jobmesh.channels import open_channel
from jobmesh.errors import (
    EtagMismatch,
    InvalidField,
    JobmeshError,
    RequestIdReused,
    RevisionMismatch,
    WrongState,
    from_rpc_error,
    from_status,
)
from jobmesh.server.grpc_server import GrpcServer
from jobmesh.server.lifecycle import Part
from jobmesh.v1 import job_service_pb2 as pb
from jobmesh.v1 import queue_service_pb2 as queue_pb
from jobmesh.v1.job_pb2 import JobFilter, JobSpec, JobState, JobView, Payload, RetryPolicy
from jobmesh.v1.job_service_pb2_grpc import JobServiceStub
from jobmesh.v1.queue_pb2 import Queue
from jobmesh.v1.queue_service_pb2_grpc import QueueServiceStub
from jobmesh_dispatcher.config import DispatcherConfig
from jobmesh_dispatcher.main import parts as dispatcher_parts
from jobmesh_gateway.main import Gateway
from tests.integration.gateway.conftest import config, running
from tests.support.wait import until

if TYPE_CHECKING:
    from jobmesh.v1.job_service_pb2_grpc import JobServiceAsyncStub
    from jobmesh.v1.queue_service_pb2_grpc import QueueServiceAsyncStub

TIMEOUT = 20.0
QUEUED, CANCELLED = JobState.JOB_STATE_QUEUED, JobState.JOB_STATE_CANCELLED
YEAR_10000 = 253_402_300_800


@asynccontextmanager
async def started(parts: Sequence[Part]) -> AsyncIterator[None]:
    async with AsyncExitStack() as stack:
        for part in parts:
            stack.push_async_callback(part.stop)
            await part.start()
        yield


@pytest.fixture
async def dispatcher(database: str, nats_url: str) -> AsyncIterator[str]:
    settings = DispatcherConfig(postgres_dsn=database, nats_url=nats_url, port=0, http_port=0)
    parts = dispatcher_parts(settings)
    async with started(parts):
        yield next(part.address for part in parts if isinstance(part, GrpcServer))


@pytest.fixture
async def gateways(dispatcher: str, nats_url: str) -> AsyncIterator[list[Gateway]]:
    both = [Gateway(config(dispatcher, nats_url), drain_seconds=0.0) for _ in range(2)]
    async with running(both[0]), running(both[1]):
        await until(lambda: all(gateway.feed.connected for gateway in both))
        yield both


@pytest.fixture
async def channels(gateways: list[Gateway]) -> AsyncIterator[list[grpc.aio.Channel]]:
    channels = [open_channel(gateway.server.address) for gateway in gateways]
    yield channels
    for channel in channels:
        await channel.close(None)


@pytest.fixture
def jobs(channels: list[grpc.aio.Channel]) -> JobServiceAsyncStub:
    return JobServiceStub(channels[0])


@pytest.fixture
def queues(channels: list[grpc.aio.Channel]) -> QueueServiceAsyncStub:
    return QueueServiceStub(channels[0])


async def refused(call: object) -> JobmeshError:
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await call  # type: ignore[misc]
    return from_rpc_error(caught.value)


def request(name: str = "a.b", request_id: str = "", **fields: Any) -> pb.SubmitJobRequest:
    return pb.SubmitJobRequest(job=JobSpec(type=name, **fields), request_id=request_id)


async def submit(jobs: JobServiceAsyncStub, **fields: Any) -> str:
    return (await jobs.SubmitJob(request(**fields), timeout=TIMEOUT)).job.job_id


async def test_the_same_request_id_is_the_same_job_in_any_form(jobs: JobServiceAsyncStub) -> None:
    by_json = request(request_id="mine", labels={"b": "2", "a": "1"})
    by_json.job.payload.json.struct_value.update({"rows": 1000, "month": "2026-10"})
    by_data = request(request_id="mine", queue="default", labels={"a": "1", "b": "2"})
    by_data.job.payload.data = b'{ "month": "2026-10", "rows": 1000.0 }'
    first = await jobs.SubmitJob(by_json, timeout=TIMEOUT)
    second = await jobs.SubmitJob(by_data, timeout=TIMEOUT)
    assert (first.created, second.created) == (True, False)
    assert first.job.job_id == second.job.job_id
    error = await refused(jobs.SubmitJob(request(request_id="mine"), timeout=TIMEOUT))
    assert isinstance(error, RequestIdReused)
    assert error.metadata["job_id"] == first.job.job_id


async def test_a_batch_finds_the_jobs_of_its_request_ids(jobs: JobServiceAsyncStub) -> None:
    known = await jobs.SubmitJob(request(request_id="known"), timeout=TIMEOUT)
    batch = pb.BatchSubmitJobsRequest(
        requests=[request(request_id="known"), request(request_id="new"), request()]
    )
    answered = await jobs.BatchSubmitJobs(batch, timeout=TIMEOUT)
    assert [result.ok.created for result in answered.results] == [False, True, True]
    assert answered.results[0].ok.job.job_id == known.job.job_id
    reused = pb.BatchSubmitJobsRequest(requests=[request("fresh"), request("x", "known")])
    error = await refused(jobs.BatchSubmitJobs(reused, timeout=TIMEOUT))
    assert isinstance(error, RequestIdReused)
    fresh = pb.ListJobsRequest(filter=JobFilter(types=["fresh"]))
    assert not (await jobs.ListJobs(fresh, timeout=TIMEOUT)).jobs
    reused.partial = True
    answered = await jobs.BatchSubmitJobs(reused, timeout=TIMEOUT)
    assert answered.results[0].ok.created
    assert isinstance(from_status(answered.results[1].error), RequestIdReused)


async def test_a_job_is_read_back_as_it_was_sent(jobs: JobServiceAsyncStub) -> None:
    content: dict[str, Any] = {"text": "ü\0 and more", "n": 3, "x": [0.5, None, True, {"deep": {}}]}
    by_json = request()
    by_json.job.payload.json.struct_value.update(content)
    sent = by_json.job.payload.json
    job_id = (await jobs.SubmitJob(by_json, timeout=TIMEOUT)).job.job_id
    read = await jobs.GetJob(pb.GetJobRequest(job_id=job_id), timeout=TIMEOUT)
    assert read.spec.payload.json == sent
    large = Payload(data=json.dumps({"n": 2**60}).encode())
    job_id = await submit(jobs, payload=large)
    read = await jobs.GetJob(pb.GetJobRequest(job_id=job_id), timeout=TIMEOUT)
    assert read.spec.payload.data == large.data
    assert [change.revision for change in read.history] == [1]


async def test_bad_input_leaves_nothing_behind(
    jobs: JobServiceAsyncStub, queues: QueueServiceAsyncStub
) -> None:
    number = request()
    number.job.payload.json.struct_value.update({"n": 2**60})
    bad: dict[str, pb.SubmitJobRequest] = {
        "job.type": request(""),
        "job.queue": request(queue="a/b"),
        "job.payload.json.n": number,
        "job.payload.data": request(payload=Payload(data=b'{"a":')),
        "job.timeout": request(timeout=Duration(seconds=-1)),
        "job.retry_policy.max_attempts": request(retry_policy=RetryPolicy(max_attempts=0)),
        "job.run_at": request(run_at=Timestamp(seconds=YEAR_10000)),
        "job.restart": request(restart=42),
        'job.labels["a"]': request(labels={"a": "b\0"}),
        "request_id": request(request_id="\0"),
    }
    for field, asked in bad.items():
        error = await refused(jobs.SubmitJob(asked, timeout=TIMEOUT))
        assert isinstance(error, InvalidField)
        assert error.field == field
        batch = pb.BatchSubmitJobsRequest(requests=[request(), asked])
        error = await refused(jobs.BatchSubmitJobs(batch, timeout=TIMEOUT))
        assert isinstance(error, InvalidField)
        assert error.field == f"requests[1].{field}"
    assert not (await jobs.ListJobs(pb.ListJobsRequest(), timeout=TIMEOUT)).jobs
    assert not (await queues.ListQueues(queue_pb.ListQueuesRequest(), timeout=TIMEOUT)).queues


@pytest.mark.parametrize("order", [0, 1, 2])
async def test_pages_have_each_job_once_and_in_order(jobs: JobServiceAsyncStub, order: int) -> None:
    batch = pb.BatchSubmitJobsRequest(requests=[request(f"t{i % 2}") for i in range(25)])
    await jobs.BatchSubmitJobs(batch, timeout=TIMEOUT)
    listing = pb.ListJobsRequest(filter=JobFilter(types=["t0"]), page_size=5, order=order)  # type: ignore[arg-type]
    seen: list[str] = []
    times: list[int] = []
    while True:
        page = await jobs.ListJobs(listing, timeout=TIMEOUT)
        seen += [job.job_id for job in page.jobs]
        times += [job.create_time.ToNanoseconds() for job in page.jobs]
        if not page.next_page_token:
            break
        listing.page_token = page.next_page_token
        other = pb.ListJobsRequest(page_token=page.next_page_token, page_size=5)
        assert isinstance(await refused(jobs.ListJobs(other, timeout=TIMEOUT)), InvalidField)
    assert len(seen) == len(set(seen)) == 13
    assert times == sorted(times, reverse=order != 2)


async def test_a_watch_at_one_gateway_sees_what_another_one_does(
    channels: list[grpc.aio.Channel],
) -> None:
    here: JobServiceAsyncStub = JobServiceStub(channels[0])
    there: JobServiceAsyncStub = JobServiceStub(channels[1])
    job_id = await submit(here)
    events = aiter(here.WatchJob(pb.WatchJobRequest(job_id=job_id), timeout=TIMEOUT))
    assert (await anext(events)).HasField("snapshot")
    waiting = asyncio.ensure_future(
        there.WaitJob(pb.WaitJobRequest(job_id=job_id), timeout=TIMEOUT)
    )
    cancel = pb.CancelJobRequest(job_id=job_id, reason="no need")
    assert (await there.CancelJob(cancel, timeout=TIMEOUT)).state == CANCELLED
    rest = [event async for event in events]
    assert [event.WhichOneof("event") for event in rest] == ["state_changed", "terminal"]
    assert rest[-1].terminal.cancel_reason == "no need"
    assert (await waiting).state == CANCELLED
    resumed = here.WatchJob(pb.WatchJobRequest(job_id=job_id, after_revision=1), timeout=TIMEOUT)
    again = [event.revision async for event in resumed]
    assert again == [2, 2]


async def test_changes_and_their_preconditions(jobs: JobServiceAsyncStub) -> None:
    job_id = await submit(jobs, payload=Payload(data=b'{"a":1}'))
    stale = pb.CancelJobRequest(job_id=job_id, expected_revision=7)
    assert isinstance(await refused(jobs.CancelJob(stale, timeout=TIMEOUT)), RevisionMismatch)
    early = await refused(jobs.RetryJob(pb.RetryJobRequest(job_id=job_id), timeout=TIMEOUT))
    assert isinstance(early, WrongState)
    cancel = pb.CancelJobRequest(job_id=job_id)
    assert (await jobs.CancelJob(cancel, timeout=TIMEOUT)).revision == 2
    assert (await jobs.CancelJob(cancel, timeout=TIMEOUT)).revision == 2
    again = pb.RetryJobRequest(job_id=job_id)
    again.payload.json.struct_value.update({"a": 2})
    retried = await jobs.RetryJob(again, timeout=TIMEOUT)
    assert (retried.state, retried.revision) == (QUEUED, 3)
    assert retried.spec.payload.json == again.payload.json
    assert not (
        await jobs.ListAttempts(pb.ListAttemptsRequest(job_id=job_id), timeout=TIMEOUT)
    ).attempts
    lines = jobs.ReadLog(pb.ReadLogRequest(job_id=job_id), timeout=TIMEOUT)
    assert [line async for line in lines] == []


async def test_a_job_for_later_is_scheduled(jobs: JobServiceAsyncStub) -> None:
    job_id = await submit(jobs, delay=Duration(seconds=3600))
    basic = pb.GetJobRequest(job_id=job_id, view=JobView.JOB_VIEW_BASIC)
    assert (await jobs.GetJob(basic, timeout=TIMEOUT)).state == JobState.JOB_STATE_SCHEDULED
    edge = await submit(jobs, run_at=Timestamp(seconds=YEAR_10000 - 1, nanos=999_999_999))
    basic.job_id = edge
    assert (await jobs.GetJob(basic, timeout=TIMEOUT)).state == JobState.JOB_STATE_SCHEDULED
    first = await submit(jobs, run_at=Timestamp(seconds=-62_135_596_800))
    basic.job_id = first
    assert (await jobs.GetJob(basic, timeout=TIMEOUT)).state == QUEUED


async def test_queues_and_their_settings(
    jobs: JobServiceAsyncStub, queues: QueueServiceAsyncStub
) -> None:
    update = queue_pb.UpdateQueueRequest(queue=Queue(name="q", max_running=3, max_depth=2))
    made = await queues.UpdateQueue(update, timeout=TIMEOUT)
    assert (made.max_running, made.max_depth) == (3, 2)
    reset = queue_pb.UpdateQueueRequest(
        queue=Queue(name="q", etag=made.etag), update_mask=FieldMask(paths=["max_depth"])
    )
    changed = await queues.UpdateQueue(reset, timeout=TIMEOUT)
    assert (changed.max_running, changed.max_depth) == (3, 0)
    assert isinstance(await refused(queues.UpdateQueue(reset, timeout=TIMEOUT)), EtagMismatch)
    pause = queue_pb.PauseQueueRequest(name="q", note="a deploy")
    paused = await queues.PauseQueue(pause, timeout=TIMEOUT)
    assert (paused.dispatch_paused, paused.pause_note) == (True, "a deploy")
    await submit(jobs, queue="q")
    read = await queues.GetQueue(queue_pb.GetQueueRequest(name="q"), timeout=TIMEOUT)
    assert (read.dispatch_paused, read.depth.queued) == (True, 1)
    await submit(jobs)
    page = await queues.ListQueues(queue_pb.ListQueuesRequest(page_size=1), timeout=TIMEOUT)
    assert [queue.name for queue in page.queues] == ["default"]
    following = queue_pb.ListQueuesRequest(page_size=1, page_token=page.next_page_token)
    page = await queues.ListQueues(following, timeout=TIMEOUT)
    assert [queue.name for queue in page.queues] == ["q"]
    resume = queue_pb.ResumeQueueRequest(name="q")
    assert not (await queues.ResumeQueue(resume, timeout=TIMEOUT)).dispatch_paused
    missing = queue_pb.ResumeQueueRequest(name="none")
    assert (await refused(queues.ResumeQueue(missing, timeout=TIMEOUT))).reason == "QUEUE_NOT_FOUND"
