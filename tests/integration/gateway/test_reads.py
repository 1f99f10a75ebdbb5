"""Reads, waits, logs, changes and queues through a gateway."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING
from uuid import UUID

import grpc
import pytest
from google.protobuf.duration_pb2 import Duration
from google.protobuf.field_mask_pb2 import FieldMask

from jobmesh.errors import (
    InvalidField,
    JobmeshError,
    NotFound,
    PayloadTooLarge,
    RevisionMismatch,
    Unimplemented,
    from_rpc_error,
)
from jobmesh.ids import new_id
from jobmesh.v1 import job_service_pb2 as pb
from jobmesh.v1 import queue_service_pb2 as queue_pb
from jobmesh.v1.dispatch_service_pb2 import ChangeQueueRequest, FindJobsRequest, ReviveJobRequest
from jobmesh.v1.job_pb2 import JobState, JobView, Payload
from jobmesh.v1.queue_pb2 import Queue, RateLimit
from tests.integration.gateway.peer import Peer
from tests.support.wait import until

if TYPE_CHECKING:
    from jobmesh.v1.job_service_pb2_grpc import JobServiceAsyncStub
    from jobmesh.v1.queue_service_pb2_grpc import QueueServiceAsyncStub

TIMEOUT = 10.0
JSON = "application/json"
RUNNING, SUCCEEDED = JobState.JOB_STATE_RUNNING, JobState.JOB_STATE_SUCCEEDED


async def refused(call: object) -> JobmeshError:
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await call  # type: ignore[misc]
    return from_rpc_error(caught.value)


async def test_payloads_are_json_where_that_is_exact(peer: Peer, jobs: JobServiceAsyncStub) -> None:
    job_id = peer.add(SUCCEEDED)
    job = peer.jobs[job_id]
    job.spec.payload.CopyFrom(Payload(data=b'{"rows":1000}', content_type=JSON))
    job.result.CopyFrom(Payload(data=b'{"n":9007199254740993}', content_type=JSON))
    job.checkpoint.CopyFrom(Payload(data=b"\x00", content_type="application/x-own"))
    read = await jobs.GetJob(pb.GetJobRequest(job_id=job_id.upper()), timeout=TIMEOUT)
    assert read.spec.payload.json.struct_value.fields["rows"].number_value == 1000
    assert read.result == job.result
    assert read.checkpoint == job.checkpoint
    basic = pb.GetJobRequest(job_id=job_id, view=JobView.JOB_VIEW_BASIC)
    assert not (await jobs.GetJob(basic, timeout=TIMEOUT)).HasField("result")


async def test_a_large_payload_is_read_back(peer: Peer, jobs: JobServiceAsyncStub) -> None:
    job_id = peer.add(SUCCEEDED)
    data = b'{"a":"' + b"x" * 1_000_000 + b'"}'
    peer.jobs[job_id].result.CopyFrom(Payload(data=data, content_type=JSON))
    read = await jobs.GetJob(pb.GetJobRequest(job_id=job_id), timeout=TIMEOUT)
    assert len(read.result.json.struct_value.fields["a"].string_value) == 1_000_000


async def test_concurrent_reads_share_calls_and_each_gets_its_own(
    peer: Peer, jobs: JobServiceAsyncStub
) -> None:
    ids = [peer.add() for _ in range(50)] + [new_id()]
    calls = [jobs.GetJob(pb.GetJobRequest(job_id=i), timeout=TIMEOUT) for i in ids * 4]
    answers = await asyncio.gather(*calls, return_exceptions=True)
    for job_id, answer in zip(ids * 4, answers, strict=True):
        if job_id in peer.jobs:
            assert not isinstance(answer, BaseException)
            assert answer.job_id == job_id
        else:
            assert isinstance(answer, grpc.aio.AioRpcError)
            assert isinstance(from_rpc_error(answer), NotFound)
    assert len(peer.calls["ReadJobs"]) < len(ids) * 4


async def test_full_jobs_that_do_not_fit_one_message_are_read_in_halves(
    peer: Peer, jobs: JobServiceAsyncStub
) -> None:
    ids = [peer.add(SUCCEEDED) for _ in range(24)]
    for job_id in ids:
        result = Payload(data=b"x" * 1_000_000, content_type="text/plain")
        peer.jobs[job_id].result.CopyFrom(result)
    calls = [jobs.GetJob(pb.GetJobRequest(job_id=i), timeout=TIMEOUT) for i in ids]
    assert [len(job.result.data) for job in await asyncio.gather(*calls)] == [1_000_000] * 24
    many = pb.BatchGetJobsRequest(job_ids=ids, view=JobView.JOB_VIEW_FULL)
    error = await refused(jobs.BatchGetJobs(many, timeout=TIMEOUT))
    assert error.reason == "ANSWER_TOO_LARGE"
    assert error.code is grpc.StatusCode.RESOURCE_EXHAUSTED


async def test_many_by_id(peer: Peer, jobs: JobServiceAsyncStub) -> None:
    ids = [peer.add(), new_id(), peer.add()]
    found = await jobs.BatchGetJobs(pb.BatchGetJobsRequest(job_ids=ids), timeout=TIMEOUT)
    assert [job.job_id for job in found.jobs] == [ids[0], ids[2]]
    bad = pb.BatchGetJobsRequest(job_ids=[ids[0], "x"])
    assert (await refused(jobs.BatchGetJobs(bad, timeout=TIMEOUT))).metadata["field"] == (
        "job_ids[1]"
    )
    none = await refused(jobs.BatchGetJobs(pb.BatchGetJobsRequest(), timeout=TIMEOUT))
    assert none.metadata["field"] == "job_ids"


async def test_a_list_is_asked_for_with_its_defaults(peer: Peer, jobs: JobServiceAsyncStub) -> None:
    peer.add()
    found = await jobs.ListJobs(pb.ListJobsRequest(), timeout=TIMEOUT)
    assert len(found.jobs) == 1
    (asked,) = peer.calls["FindJobs"]
    assert isinstance(asked, FindJobsRequest)
    assert (asked.request.page_size, asked.request.order, asked.request.view) == (50, 1, 1)


async def test_a_page_of_large_jobs_is_shorter(peer: Peer, jobs: JobServiceAsyncStub) -> None:
    for _ in range(20):
        result = Payload(data=b"x" * 2_000_000, content_type="text/plain")
        peer.jobs[peer.add(SUCCEEDED)].result.CopyFrom(result)
    request = pb.ListJobsRequest(page_size=20, view=JobView.JOB_VIEW_FULL)
    found = await jobs.ListJobs(request, timeout=TIMEOUT)
    assert [len(job.result.data) for job in found.jobs] == [2_000_000] * 5


async def test_a_bad_list_names_all_its_fields(peer: Peer, jobs: JobServiceAsyncStub) -> None:
    request = pb.ListJobsRequest(page_size=1001, page_token="nonsense", order=9, view=9)  # type: ignore[arg-type]
    request.filter.states.append(77)  # type: ignore[arg-type]
    error = await refused(jobs.ListJobs(request, timeout=TIMEOUT))
    assert [field for field, _ in error.violations] == [
        "filter.states[0]",
        "page_size",
        "order",
        "view",
        "page_token",
    ]
    assert not peer.calls["FindJobs"]


async def test_attempts(peer: Peer, jobs: JobServiceAsyncStub) -> None:
    request = pb.ListAttemptsRequest(job_id=peer.add())
    found = await jobs.ListAttempts(request, timeout=TIMEOUT)
    assert [attempt.attempt for attempt in found.attempts] == [1, 2]
    missing = pb.ListAttemptsRequest(job_id=new_id())
    assert isinstance(await refused(jobs.ListAttempts(missing, timeout=TIMEOUT)), NotFound)


async def test_a_wait_ends_with_the_job(peer: Peer, jobs: JobServiceAsyncStub) -> None:
    job_id = peer.add()
    waiting = asyncio.ensure_future(jobs.WaitJob(pb.WaitJobRequest(job_id=job_id), timeout=TIMEOUT))
    await until(lambda: peer.wants(job_id))
    await peer.change(job_id, RUNNING)
    await peer.change(job_id, SUCCEEDED)
    assert (await waiting).state == SUCCEEDED
    again = await jobs.WaitJob(pb.WaitJobRequest(job_id=job_id), timeout=TIMEOUT)
    assert again.state == SUCCEEDED


@pytest.mark.parametrize("nanos", [0, 200_000_000])
async def test_a_wait_that_times_out_answers_with_the_job_as_it_is(
    peer: Peer, jobs: JobServiceAsyncStub, nanos: int
) -> None:
    request = pb.WaitJobRequest(job_id=peer.add(RUNNING), timeout=Duration(nanos=nanos))
    assert (await jobs.WaitJob(request, timeout=TIMEOUT)).state == RUNNING


async def test_a_wait_is_bounded(jobs: JobServiceAsyncStub) -> None:
    request = pb.WaitJobRequest(job_id="x", timeout=Duration(seconds=3601))
    error = await refused(jobs.WaitJob(request, timeout=TIMEOUT))
    assert [field for field, _ in error.violations] == ["job_id", "timeout"]


async def test_a_log_is_read_page_by_page(peer: Peer, jobs: JobServiceAsyncStub) -> None:
    job_id = peer.add()
    for number in range(1200):
        await peer.log(job_id, f"line {number}", told=False)
    request = pb.ReadLogRequest(job_id=job_id, after_sequence=100)
    lines = [line.sequence async for line in jobs.ReadLog(request, timeout=TIMEOUT)]
    assert lines == list(range(101, 1201))


async def test_a_log_is_followed_to_the_end_though_events_are_lost(
    peer: Peer, jobs: JobServiceAsyncStub
) -> None:
    job_id = peer.add()
    await peer.log(job_id, "before", told=False)
    lines: list[str] = []

    async def follow() -> None:
        request = pb.ReadLogRequest(job_id=job_id, follow=True)
        async for line in jobs.ReadLog(request, timeout=TIMEOUT):
            lines.append(line.message)  # noqa: PERF401

    following = asyncio.create_task(follow())
    await until(lambda: lines == ["before"] and peer.wants(job_id))
    await peer.log(job_id, "told")
    await until(lambda: lines == ["before", "told"])
    await peer.log(job_id, "lost", told=False)
    await peer.log(job_id, "after it")
    await until(lambda: lines == ["before", "told", "lost", "after it"])
    await peer.log(job_id, "lost, too", told=False)
    await peer.change(job_id, SUCCEEDED)
    await asyncio.wait_for(following, TIMEOUT)
    assert lines == ["before", "told", "lost", "after it", "lost, too"]


async def test_cancel_and_retry(peer: Peer, jobs: JobServiceAsyncStub) -> None:
    job_id = peer.add()
    request = pb.CancelJobRequest(job_id=job_id.upper(), reason="no need\nany more")
    cancelled = await jobs.CancelJob(request, timeout=TIMEOUT)
    assert cancelled.state == JobState.JOB_STATE_CANCELLED
    again = pb.RetryJobRequest(job_id=job_id)
    again.payload.json.struct_value.update({"b": 1, "a": 2})
    assert (await jobs.RetryJob(again, timeout=TIMEOUT)).state == JobState.JOB_STATE_QUEUED
    (asked,) = peer.calls["ReviveJob"]
    assert isinstance(asked, ReviveJobRequest)
    assert asked.request.payload == Payload(data=b'{"a":2,"b":1}', content_type=JSON)
    assert str(UUID(asked.operation_id)) == asked.operation_id


async def test_bad_changes_name_their_fields(peer: Peer, jobs: JobServiceAsyncStub) -> None:
    cancel = pb.CancelJobRequest(job_id="", reason="a\0", expected_revision=0)
    error = await refused(jobs.CancelJob(cancel, timeout=TIMEOUT))
    assert [f for f, _ in error.violations] == ["job_id", "reason", "expected_revision"]
    retry = pb.RetryJobRequest(job_id=peer.add(), payload=Payload(data=b"x" * (2 << 20)))
    assert isinstance(await refused(jobs.RetryJob(retry, timeout=TIMEOUT)), PayloadTooLarge)
    peer.failure = RevisionMismatch(3, 5)
    stale = pb.CancelJobRequest(job_id=peer.add(), expected_revision=3)
    error = await refused(jobs.CancelJob(stale, timeout=TIMEOUT))
    assert isinstance(error, RevisionMismatch)
    assert error.metadata == {"expected": "3", "actual": "5"}


async def test_what_is_not_built_says_so(
    jobs: JobServiceAsyncStub, queues: QueueServiceAsyncStub
) -> None:
    calls = [
        jobs.DeleteJob(pb.DeleteJobRequest(), timeout=TIMEOUT),
        jobs.ExplainJob(pb.ExplainJobRequest(), timeout=TIMEOUT),
        jobs.SignalJob(pb.SignalJobRequest(), timeout=TIMEOUT),
        jobs.QueryJob(pb.QueryJobRequest(), timeout=TIMEOUT),
        jobs.BatchCancelJobs(pb.BatchCancelJobsRequest(), timeout=TIMEOUT),
        jobs.BatchRetryJobs(pb.BatchRetryJobsRequest(), timeout=TIMEOUT),
        jobs.BatchDeleteJobs(pb.BatchDeleteJobsRequest(), timeout=TIMEOUT),
        jobs.WatchJobs(pb.WatchJobsRequest(), timeout=TIMEOUT).read(),
        queues.PurgeQueue(queue_pb.PurgeQueueRequest(), timeout=TIMEOUT),
        queues.WatchQueues(queue_pb.WatchQueuesRequest(), timeout=TIMEOUT).read(),
    ]
    for call in calls:
        error = await refused(call)
        assert isinstance(error, Unimplemented)
        assert "is not built yet; " in error.message


async def test_queues(peer: Peer, queues: QueueServiceAsyncStub) -> None:
    peer.queues["q"] = Queue(name="q")
    listed = await queues.ListQueues(queue_pb.ListQueuesRequest(), timeout=TIMEOUT)
    assert [queue.name for queue in listed.queues] == ["q"]
    read = await queues.GetQueue(queue_pb.GetQueueRequest(name="q"), timeout=TIMEOUT)
    assert read.name == "q"
    paused = queue_pb.PauseQueueRequest(name="q", note="a deploy")
    answered = await queues.PauseQueue(paused, timeout=TIMEOUT)
    assert (answered.dispatch_paused, answered.pause_note) == (True, "a deploy")
    resumed = await queues.ResumeQueue(queue_pb.ResumeQueueRequest(name="q"), timeout=TIMEOUT)
    assert not resumed.dispatch_paused
    missing = queues.GetQueue(queue_pb.GetQueueRequest(name="other"), timeout=TIMEOUT)
    assert (await refused(missing)).reason == "QUEUE_NOT_FOUND"
    pause = queues.PauseQueue(queue_pb.PauseQueueRequest(name="other"), timeout=TIMEOUT)
    assert (await refused(pause)).reason == "QUEUE_NOT_FOUND"


async def test_an_update_says_which_settings_it_means(
    peer: Peer, queues: QueueServiceAsyncStub
) -> None:
    await queues.UpdateQueue(
        queue_pb.UpdateQueueRequest(queue=Queue(name="q", max_running=3)), timeout=TIMEOUT
    )
    (asked,) = peer.calls["ChangeQueue"]
    assert isinstance(asked, ChangeQueueRequest)
    assert list(asked.request.update_mask.paths) == ["max_running"]


async def test_a_bad_update_names_its_fields(peer: Peer, queues: QueueServiceAsyncStub) -> None:
    request = queue_pb.UpdateQueueRequest(
        queue=Queue(name="a b", max_running=-1),
        update_mask=FieldMask(paths=["max_running", "depth", "nonsense"]),
    )
    error = await refused(queues.UpdateQueue(request, timeout=TIMEOUT))
    assert isinstance(error, InvalidField)
    assert [field for field, _ in error.violations] == [
        "queue.name",
        "update_mask.paths[1]",
        "update_mask.paths[2]",
        "queue.max_running",
    ]
    planned = queue_pb.UpdateQueueRequest(queue=Queue(name="q", rate_limit=RateLimit(limit=1)))
    error = await refused(queues.UpdateQueue(planned, timeout=TIMEOUT))
    assert error.metadata["field"] == "queue.rate_limit"
    assert not peer.calls["ChangeQueue"]
