"""Submissions: one by one, grouped on the way to a dispatcher, and in batches."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from jobmesh.batching import Batcher
from jobmesh.errors import InvalidField, JobmeshError, from_status, to_status
from jobmesh.ids import new_id
from jobmesh.payload import Normal
from jobmesh.server.tracing import current_traceparent
from jobmesh.v1.dispatch_service_pb2 import JobSubmission, SubmitJobsRequest, SubmitJobsResult
from jobmesh.v1.job_service_pb2 import (
    BatchSubmitJobsRequest,
    BatchSubmitJobsResponse,
    SubmitJobRequest,
    SubmitJobResponse,
)
from jobmesh.validation import Violations
from jobmesh_gateway.dispatchers import CALL_SECONDS, Dispatchers, answer
from jobmesh_gateway.submission import build, check, preview

MAX_BATCH_JOBS = 10_000
MAX_BATCH_BYTES = 8 << 20
# Above it a payload is checked in a thread: the loop must not stand still for it.
LARGE_BYTES = 64 << 10
# What may wait for a dispatcher. Above it callers are told to come back.
MAX_WAITING = 20_000
# With one flight the dispatchers would idle while an answer travels.
FLIGHTS = 3
# The loop turns again after so many jobs of a batch: about a millisecond.
_SLICE = 100


class Submitter:
    """Takes submissions. A lifecycle part: those in flight are answered before it stops."""

    def __init__(self, dispatchers: Dispatchers, namespace: str, payload_limit: int) -> None:
        self._dispatchers = dispatchers
        self._namespace = namespace
        self._limit = payload_limit
        self._batcher: Batcher[JobSubmission, SubmitJobsResult] = Batcher(
            self._flush,
            max_items=1000,
            max_bytes=4 << 20,
            max_waiting=MAX_WAITING,
            flights=FLIGHTS,
            name="submissions",
        )

    async def start(self) -> None:
        """Accept submissions."""
        await self._batcher.start()

    async def stop(self) -> None:
        """Wait for those in flight."""
        await self._batcher.stop()

    async def submit(self, request: SubmitJobRequest) -> SubmitJobResponse:
        """Store one job; answers once it is durable."""
        found = Violations()
        payload = await self._check(request, found)
        found.raise_any()
        assert payload is not None
        if request.validate_only:
            return preview(request, self._namespace)
        submission = build(request, payload, self._namespace, current_traceparent())
        result = await self._batcher.submit(submission, submission.ByteSize())
        if result.WhichOneof("result") == "error":
            raise from_status(result.error)
        return result.ok

    async def submit_batch(
        self, request: BatchSubmitJobsRequest, seconds: float
    ) -> BatchSubmitJobsResponse:
        """Store many jobs in one call, all or nothing unless `partial`."""
        _check_batch(request)
        response = BatchSubmitJobsResponse()
        for _ in request.requests:
            response.results.add()
        payloads = await self._check_all(request, response)
        if request.requests[0].validate_only:
            for index, _ in payloads:
                answered = preview(request.requests[index], self._namespace)
                response.results[index].ok.CopyFrom(answered)
        elif payloads:
            await self._store(request, payloads, response, seconds)
        return response

    async def _check(
        self, request: SubmitJobRequest, found: Violations, prefix: str = ""
    ) -> Normal | None:
        if request.job.payload.ByteSize() > LARGE_BYTES:
            return await asyncio.to_thread(check, request, found, self._limit, prefix)
        return check(request, found, self._limit, prefix)

    async def _check_all(
        self, batch: BatchSubmitJobsRequest, response: BatchSubmitJobsResponse
    ) -> list[tuple[int, Normal]]:
        """Positions and payloads of the good ones; the bad ones are answered, or all refused."""
        good: list[tuple[int, Normal]] = []
        all_found = Violations()
        for index, request in enumerate(batch.requests):
            found = Violations() if batch.partial else all_found
            payload = await self._check(request, found, f"requests[{index}].")
            if batch.partial and (error := found.error()):
                response.results[index].error.CopyFrom(to_status(error))
            elif payload is not None:
                good.append((index, payload))
            if all_found.full:
                break
            if index % _SLICE == _SLICE - 1:
                await asyncio.sleep(0)
        all_found.raise_any()
        return good

    async def _store(
        self,
        batch: BatchSubmitJobsRequest,
        payloads: Sequence[tuple[int, Normal]],
        response: BatchSubmitJobsResponse,
        seconds: float,
    ) -> None:
        traceparent = current_traceparent()
        call = SubmitJobsRequest(operation_id=new_id(), atomic=not batch.partial)
        for count, (index, payload) in enumerate(payloads):
            request = batch.requests[index]
            call.submissions.append(build(request, payload, self._namespace, traceparent))
            if count % _SLICE == _SLICE - 1:
                await asyncio.sleep(0)
        answered = await answer(self._dispatchers.stub.SubmitJobs(call, timeout=seconds))
        for (index, _), result in zip(payloads, answered.results, strict=True):
            if result.WhichOneof("result") == "ok":
                response.results[index].ok.CopyFrom(result.ok)
            elif batch.partial:
                response.results[index].error.CopyFrom(result.error)
            else:
                raise _of_item(from_status(result.error), index)

    async def _flush(self, submissions: list[JobSubmission]) -> Sequence[SubmitJobsResult]:
        request = SubmitJobsRequest(operation_id=new_id(), submissions=submissions)
        # A submission is small beside its call: all share the fate of the call, and its deadline.
        call = self._dispatchers.stub.SubmitJobs(request, timeout=CALL_SECONDS)
        return (await answer(call)).results


def _check_batch(request: BatchSubmitJobsRequest) -> None:
    count = len(request.requests)
    if not 1 <= count <= MAX_BATCH_JOBS:
        raise InvalidField("requests", f"has {count} entries; 1 to {MAX_BATCH_JOBS} are allowed")
    size = request.ByteSize()
    if size > MAX_BATCH_BYTES:
        raise InvalidField("requests", f"has {size} bytes; at most {MAX_BATCH_BYTES} are allowed")
    first = request.requests[0].validate_only
    for index, item in enumerate(request.requests):
        if item.validate_only != first:
            raise InvalidField(f"requests[{index}].validate_only", "must be the same in all")


def _of_item(error: JobmeshError, index: int) -> JobmeshError:
    """The error of the whole batch: that of one item, which it names."""
    error.metadata.setdefault("request_index", str(index))
    return error
