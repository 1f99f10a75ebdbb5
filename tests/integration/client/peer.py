"""A gateway in memory, for what a client does when the network or the mesh misbehaves.

It speaks the contract over a real gRPC server; jobs move only when a test says so.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from typing import Any

from jobmesh.errors import (
    InvalidField,
    JobmeshError,
    NotFound,
    RevisionMismatch,
    WrongState,
    to_status,
)
from jobmesh.ids import new_id
from jobmesh.v1 import (
    job_pb2,
    job_service_pb2,
    job_service_pb2_grpc,
    queue_pb2,
    queue_service_pb2,
    queue_service_pb2_grpc,
)

TERMINAL = (job_pb2.JOB_STATE_SUCCEEDED, job_pb2.JOB_STATE_CANCELLED, job_pb2.JOB_STATE_DEAD)
MOST_BYTES = 8 << 20  # of a batch, as it comes


class Jobs(job_service_pb2_grpc.JobServiceServicer):
    """Jobs by id and by request id; `submit_calls` has the size of each call that stored jobs."""

    def __init__(self) -> None:
        self.jobs: dict[str, job_pb2.Job] = {}
        self.lines: dict[str, list[job_pb2.LogLine]] = {}
        self.by_request: dict[str, str] = {}
        self.submit_calls: list[int] = []
        self.calls: Counter[str] = Counter()  # of those that a test may await
        self.fail: list[JobmeshError] = []
        self.lose: list[JobmeshError] = []  # after the call has taken effect
        self.refuse: dict[str, JobmeshError] = {}  # by type
        self.hold = asyncio.Event()
        self.hold.set()
        self.watches: list[int] = []  # after_revision of each
        self.end_streams = asyncio.Event()
        self._changed = asyncio.Condition()

    async def SubmitJob(self, request: Any, context: Any) -> Any:
        await self._enter(1)
        return self._store(request)

    async def BatchSubmitJobs(self, request: Any, context: Any) -> Any:
        self.calls["BatchSubmitJobs"] += 1
        await self._enter(len(request.requests))
        if request.ByteSize() > MOST_BYTES:
            raise InvalidField("requests", f"has {request.ByteSize()} bytes")
        response = job_service_pb2.BatchSubmitJobsResponse()
        for each in request.requests:
            refusal = self.refuse.get(each.job.type)
            if refusal is None:
                response.results.add(ok=self._store(each))
            elif request.partial:
                response.results.add(error=to_status(refusal))
            else:
                raise refusal
        return response

    async def GetJob(self, request: Any, context: Any) -> Any:
        self.calls["GetJob"] += 1
        await self._enter()
        return self._find(request.job_id)

    async def ListJobs(self, request: Any, context: Any) -> Any:
        await self._enter()
        wanted = [
            job
            for job in reversed(self.jobs.values())
            if not request.filter.types or job.spec.type in request.filter.types
        ]
        start = int(request.page_token or 0)
        end = start + request.page_size
        return job_service_pb2.ListJobsResponse(
            jobs=wanted[start:end], next_page_token=str(end) if end < len(wanted) else ""
        )

    async def WaitJob(self, request: Any, context: Any) -> Any:
        self.calls["WaitJob"] += 1
        await self._enter()
        timeout = request.timeout.ToTimedelta().total_seconds()
        try:
            async with asyncio.timeout(timeout), self._changed:
                await self._changed.wait_for(lambda: self._find(request.job_id).state in TERMINAL)
        except TimeoutError:
            pass
        return self._find(request.job_id)

    async def WatchJob(self, request: Any, context: Any) -> AsyncIterator[Any]:
        self.calls["WatchJob"] += 1
        self.watches.append(request.after_revision)
        await self._enter()
        job = self._find(request.job_id)
        yield job_pb2.JobEvent(snapshot=job, revision=job.revision)
        told = max(job.revision, request.after_revision)
        while job.state not in TERMINAL:
            async with self._changed:
                while job.revision == told and not self.end_streams.is_set():
                    await self._changed.wait()
            if self.end_streams.is_set():
                return
            for change in job.history[told:]:
                yield job_pb2.JobEvent(revision=change.revision, state_changed=change)
            told = job.revision
        yield job_pb2.JobEvent(terminal=job, revision=job.revision)

    async def CancelJob(self, request: Any, context: Any) -> Any:
        await self._enter()
        job = self._find(request.job_id)
        job.cancel_reason = request.reason
        await self.move(job.job_id, job_pb2.JOB_STATE_CANCELLED, job_pb2.JOB_REASON_CANCELLED)
        return job

    async def RetryJob(self, request: Any, context: Any) -> Any:
        job = self._find(request.job_id)
        if request.HasField("expected_revision") and request.expected_revision != job.revision:
            raise RevisionMismatch(request.expected_revision, job.revision)
        if job.state not in TERMINAL:
            raise WrongState("QUEUED")
        await self.move(job.job_id, job_pb2.JOB_STATE_QUEUED, job_pb2.JOB_REASON_RETRIED)
        if self.lose:
            raise self.lose.pop(0)
        return job

    async def ListAttempts(self, request: Any, context: Any) -> Any:
        await self._enter()
        attempts = range(1, self._find(request.job_id).attempt + 1)
        return job_service_pb2.ListAttemptsResponse(
            attempts=[job_pb2.Attempt(attempt=number, runner_id="r") for number in attempts]
        )

    async def ReadLog(self, request: Any, context: Any) -> AsyncIterator[Any]:
        self.calls["ReadLog"] += 1
        await self._enter()
        for line in self.lines.get(request.job_id, []):
            if line.sequence > request.after_sequence:
                yield line
                await self._enter()
        while request.follow and self._find(request.job_id).state not in TERMINAL:
            async with self._changed:
                await self._changed.wait()

    async def move(
        self,
        job_id: str,
        state: job_pb2.JobState.ValueType,
        reason: job_pb2.JobReason.ValueType = job_pb2.JOB_REASON_UNSPECIFIED,
    ) -> None:
        """Change the state of a job."""
        async with self._changed:
            job = self.jobs[job_id]
            job.revision += 1
            job.state, job.reason = state, reason
            job.attempt += state == job_pb2.JOB_STATE_RUNNING
            job.history.add(revision=job.revision, state=state, reason=reason, attempt=job.attempt)
            self._changed.notify_all()

    async def finish(self, job_id: str, result: bytes = b"null") -> None:
        """Run a job to its success."""
        await self.move(job_id, job_pb2.JOB_STATE_RUNNING)
        self.jobs[job_id].result.data = result
        await self.move(job_id, job_pb2.JOB_STATE_SUCCEEDED, job_pb2.JOB_REASON_COMPLETED)

    async def end_all_streams(self) -> None:
        """End all watches as if the gateway forgot them."""
        async with self._changed:
            self.end_streams.set()
            self._changed.notify_all()

    async def _enter(self, submitted: int = 0) -> None:
        if submitted:
            self.submit_calls.append(submitted)
        await self.hold.wait()
        if self.fail:
            raise self.fail.pop(0)

    def _store(self, request: job_service_pb2.SubmitJobRequest) -> Any:
        found = self.by_request.get(request.request_id)
        if found is not None:
            return job_service_pb2.SubmitJobResponse(job=self.jobs[found], created=False)
        job = job_pb2.Job(job_id=new_id(), spec=request.job, state=job_pb2.JOB_STATE_QUEUED)
        job.revision = 1
        job.history.add(revision=1, state=job.state)
        self.jobs[job.job_id] = job
        self.by_request[request.request_id] = job.job_id
        return job_service_pb2.SubmitJobResponse(job=job, created=True)

    def _find(self, job_id: str) -> job_pb2.Job:
        if job_id not in self.jobs:
            raise NotFound.job(job_id)
        return self.jobs[job_id]


class QueueStore(queue_service_pb2_grpc.QueueServiceServicer):
    """Queues by name; `masks` has the fields of each update."""

    def __init__(self) -> None:
        self.queues: dict[str, queue_pb2.Queue] = {}
        self.masks: list[list[str]] = []

    async def ListQueues(self, request: Any, context: Any) -> Any:
        names = sorted(self.queues)
        start = int(request.page_token or 0)
        end = start + 2  # a server may answer with shorter pages than asked for
        return queue_service_pb2.ListQueuesResponse(
            queues=[self.queues[name] for name in names[start:end]],
            next_page_token=str(end) if end < len(names) else "",
        )

    async def GetQueue(self, request: Any, context: Any) -> Any:
        return self._find(request.name)

    async def UpdateQueue(self, request: Any, context: Any) -> Any:
        queue = self.queues.setdefault(request.queue.name, queue_pb2.Queue(name=request.queue.name))
        self.masks.append(list(request.update_mask.paths))
        request.update_mask.MergeMessage(request.queue, queue, replace_message_field=True)
        return queue

    async def PauseQueue(self, request: Any, context: Any) -> Any:
        queue = self._find(request.name)
        queue.dispatch_paused, queue.pause_note = True, request.note
        return queue

    async def ResumeQueue(self, request: Any, context: Any) -> Any:
        queue = self._find(request.name)
        queue.dispatch_paused, queue.pause_note = False, ""
        return queue

    def _find(self, name: str) -> queue_pb2.Queue:
        if name not in self.queues:
            raise NotFound.queue(name)
        return self.queues[name]
