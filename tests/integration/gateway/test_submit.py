"""Submissions through a gateway: grouped, checked, answered each with its own."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import grpc
import pytest

from jobmesh.errors import (
    InvalidField,
    JobmeshError,
    PayloadTooLarge,
    QueueFull,
    RequestIdReused,
    from_rpc_error,
    from_status,
)
from jobmesh.v1 import dispatch_service_pb2, job_service_pb2
from jobmesh.v1.job_pb2 import JobSpec, Payload
from tests.integration.gateway.peer import Peer, requests_of

if TYPE_CHECKING:
    from jobmesh.v1.job_service_pb2_grpc import JobServiceAsyncStub

TIMEOUT = 10.0


def request(name: str = "a.b", **fields: object) -> job_service_pb2.SubmitJobRequest:
    return job_service_pb2.SubmitJobRequest(job=JobSpec(type=name), **fields)  # type: ignore[arg-type]


def submissions(peer: Peer) -> list[dispatch_service_pb2.JobSubmission]:
    found: list[dispatch_service_pb2.JobSubmission] = []
    for call in requests_of(peer, "SubmitJobs"):
        assert isinstance(call, dispatch_service_pb2.SubmitJobsRequest)
        found += call.submissions
    return found


async def refused(call: object) -> JobmeshError:
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await call  # type: ignore[misc]
    return from_rpc_error(caught.value)


async def test_a_job_is_stored_as_data_under_a_new_id(
    peer: Peer, jobs: JobServiceAsyncStub
) -> None:
    asked = request(request_id="mine")
    asked.job.payload.json.struct_value.update({"rows": 1000})
    answered = await jobs.SubmitJob(asked, timeout=TIMEOUT)
    (stored,) = submissions(peer)
    assert answered.created
    assert answered.job.job_id == stored.job_id
    assert stored.job.payload == Payload(data=b'{"rows":1000}', content_type="application/json")
    assert len(stored.digest) == 32


async def test_submissions_that_wait_share_a_call(peer: Peer, jobs: JobServiceAsyncStub) -> None:
    peer.submit_gate.clear()
    calls = [
        asyncio.ensure_future(jobs.SubmitJob(request(f"t{i}"), timeout=TIMEOUT)) for i in range(300)
    ]
    await asyncio.wait(calls, timeout=1.5)
    peer.submit_gate.set()
    answers = await asyncio.gather(*calls)
    assert [answer.job.spec.type for answer in answers] == [f"t{i}" for i in range(300)]
    assert len({answer.job.job_id for answer in answers}) == 300
    assert len(peer.calls["SubmitJobs"]) < 30


async def test_one_that_is_refused_fails_alone(peer: Peer, jobs: JobServiceAsyncStub) -> None:
    peer.refused_types["full"] = QueueFull("q", 5)
    good, bad = await asyncio.gather(
        jobs.SubmitJob(request(), timeout=TIMEOUT),
        refused(jobs.SubmitJob(request("full"), timeout=TIMEOUT)),
    )
    assert good.created
    assert isinstance(bad, QueueFull)
    assert bad.retry_after == 1.0


async def test_bad_input_names_its_fields_and_reaches_nobody(
    peer: Peer, jobs: JobServiceAsyncStub
) -> None:
    asked = request("x" * 300, request_id="a\0")
    asked.job.retry_policy.max_attempts = 0
    asked.job.timeout.seconds = -1
    asked.job.run_at.seconds = 253_402_300_800
    asked.job.restart = 77  # type: ignore[assignment]
    asked.job.labels["a"] = "b\0"
    asked.job.payload.json.struct_value.update({"n": 2**60})
    error = await refused(jobs.SubmitJob(asked, timeout=TIMEOUT))
    assert isinstance(error, InvalidField)
    assert error.code is grpc.StatusCode.INVALID_ARGUMENT
    named = {field for field, _ in error.violations}
    assert {"job.type", "job.retry_policy.max_attempts", "job.timeout"} <= named
    assert not peer.calls["SubmitJobs"]


async def test_a_payload_over_the_limit(peer: Peer, jobs: JobServiceAsyncStub) -> None:
    asked = request()
    asked.job.payload.data = b'{"a":"' + b"x" * (1 << 20) + b'"}'
    error = await refused(jobs.SubmitJob(asked, timeout=TIMEOUT))
    assert isinstance(error, PayloadTooLarge)
    assert error.metadata["field"] == "job.payload.data"
    asked.job.payload.data = b'{"a":"' + b"x" * 1_000_000 + b'"}'
    assert (await jobs.SubmitJob(asked, timeout=TIMEOUT)).created


async def test_a_dispatchers_error_passes_unchanged(peer: Peer, jobs: JobServiceAsyncStub) -> None:
    peer.failure = RequestIdReused("mine", "job-1")
    error = await refused(jobs.SubmitJob(request(), timeout=TIMEOUT))
    assert isinstance(error, RequestIdReused)
    assert error.metadata == {"request_id": "mine", "job_id": "job-1"}


async def test_only_checked(peer: Peer, jobs: JobServiceAsyncStub) -> None:
    answered = await jobs.SubmitJob(request(validate_only=True), timeout=TIMEOUT)
    assert (answered.job.job_id, answered.job.spec.queue) == ("", "default")
    assert not peer.calls["SubmitJobs"]


def batch(
    *requests: job_service_pb2.SubmitJobRequest, partial: bool = False
) -> job_service_pb2.BatchSubmitJobsRequest:
    return job_service_pb2.BatchSubmitJobsRequest(requests=requests, partial=partial)


async def test_a_batch_is_one_call(peer: Peer, jobs: JobServiceAsyncStub) -> None:
    asked = batch(*(request(f"t{i}") for i in range(1000)))
    answered = await jobs.BatchSubmitJobs(asked, timeout=TIMEOUT)
    assert [r.ok.job.spec.type for r in answered.results] == [f"t{i}" for i in range(1000)]
    (call,) = requests_of(peer, "SubmitJobs")
    assert isinstance(call, dispatch_service_pb2.SubmitJobsRequest)
    assert call.atomic


async def test_one_bad_item_refuses_the_batch(peer: Peer, jobs: JobServiceAsyncStub) -> None:
    asked = batch(request(), request(), request(), request(""))
    error = await refused(jobs.BatchSubmitJobs(asked, timeout=TIMEOUT))
    assert isinstance(error, InvalidField)
    assert error.field == "requests[3].job.type"
    assert not peer.calls["SubmitJobs"]


async def test_a_partial_batch_answers_each(peer: Peer, jobs: JobServiceAsyncStub) -> None:
    peer.refused_types["full"] = QueueFull("q", 5)
    asked = batch(request("x y"), request("ok"), request("full"), request("too"), partial=True)
    answered = await jobs.BatchSubmitJobs(asked, timeout=TIMEOUT)
    bad, good, full, too = answered.results
    error = from_status(bad.error)
    assert isinstance(error, InvalidField)
    assert error.field == "requests[0].job.type"
    assert (good.ok.job.spec.type, too.ok.job.spec.type) == ("ok", "too")
    assert isinstance(from_status(full.error), QueueFull)


async def test_a_batch_that_is_only_checked(peer: Peer, jobs: JobServiceAsyncStub) -> None:
    asked = batch(request(validate_only=True), request("", validate_only=True), partial=True)
    answered = await jobs.BatchSubmitJobs(asked, timeout=TIMEOUT)
    assert [result.WhichOneof("result") for result in answered.results] == ["ok", "error"]
    mixed = batch(request(validate_only=True), request())
    error = await refused(jobs.BatchSubmitJobs(mixed, timeout=TIMEOUT))
    assert error.metadata["field"] == "requests[1].validate_only"
    assert not peer.calls["SubmitJobs"]


@pytest.mark.parametrize("count", [0, 10_001])
async def test_the_size_of_a_batch(jobs: JobServiceAsyncStub, count: int) -> None:
    asked = batch(*([request()] * count))
    error = await refused(jobs.BatchSubmitJobs(asked, timeout=TIMEOUT))
    assert error.metadata["field"] == "requests"


async def test_the_bytes_of_a_batch(jobs: JobServiceAsyncStub) -> None:
    large = request()
    large.job.payload.data = b'{"a":"' + b"x" * 1_000_000 + b'"}'
    error = await refused(jobs.BatchSubmitJobs(batch(*([large] * 9)), timeout=TIMEOUT))
    assert error.metadata["field"] == "requests"
