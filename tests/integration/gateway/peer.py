"""A dispatcher as far as a gateway can tell: real gRPC, real NATS, and a table in memory.

What a real one cannot be made to do on demand happens here when a test says so: an event is lost,
repeated or late, a call fails, a job is read in an old state.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

from google.protobuf.timestamp_pb2 import Timestamp
from nats.aio.client import Client
from nats.aio.msg import Msg

from jobmesh.errors import JobmeshError, NotFound, Unimplemented, to_status
from jobmesh.ids import bucket_of, new_id
from jobmesh.server.grpc_server import GrpcServer
from jobmesh.v1 import dispatch_service_pb2 as pb
from jobmesh.v1.broker_pb2 import EventBatch, WatchAnnouncement
from jobmesh.v1.dispatch_service_pb2_grpc import (
    DispatchServiceServicer,
    add_DispatchServiceServicer_to_server,
)
from jobmesh.v1.job_pb2 import (
    JOB_VIEW_BASIC,
    Attempt,
    Job,
    JobEvent,
    JobState,
    LogLine,
    Progress,
    StateChange,
)
from jobmesh.v1.job_service_pb2 import ListJobsResponse, SubmitJobResponse
from jobmesh.v1.queue_pb2 import Queue

FULL_NAME = "jobmesh.v1.DispatchService"


def now() -> Timestamp:
    time = Timestamp()
    time.GetCurrentTime()
    return time


class Peer(DispatchServiceServicer):
    """Answers a gateway; `calls` has what it was asked, by method."""

    def __init__(self) -> None:
        self.jobs: dict[str, Job] = {}
        self.logs: dict[str, list[LogLine]] = defaultdict(list)
        self.queues: dict[str, Queue] = {}
        self.calls: dict[str, list[object]] = defaultdict(list)
        self.failure: JobmeshError | None = None
        self.refused_types: dict[str, JobmeshError] = {}
        self.submit_gate = asyncio.Event()
        self.submit_gate.set()
        self.announced = b""
        self.nats = Client()

    # What a test makes happen.

    def add(self, state: int = JobState.JOB_STATE_QUEUED) -> str:
        """A job in that state; its id."""
        job = Job(job_id=new_id(), namespace="default", create_time=now())
        self.jobs[job.job_id] = job
        self._enter(job, state)
        return job.job_id

    def _enter(self, job: Job, state: int) -> StateChange:
        job.revision += 1
        job.state = JobState.ValueType(state)
        change = StateChange(revision=job.revision, state=job.state, time=now())
        job.history.append(change)
        return change

    def silently(self, job_id: str, state: int) -> JobEvent:
        """The job changes; its event, which is not sent."""
        change = self._enter(self.jobs[job_id], state)
        return JobEvent(
            job_id=job_id, revision=change.revision, time=change.time, state_changed=change
        )

    async def change(self, job_id: str, state: int) -> None:
        """The job changes, and the gateways are told."""
        await self.send(self.silently(job_id, state))

    async def progress(self, job_id: str, current: int, message: str = "") -> None:
        """Its handler reports."""
        job = self.jobs[job_id]
        progress = Progress(current=current, message=message, update_time=now())
        job.progress.CopyFrom(progress)
        await self.send(
            JobEvent(job_id=job_id, revision=job.revision, sequence=current, progress=job.progress)
        )

    async def log(self, job_id: str, message: str, told: bool = True) -> None:
        """Its handler logs."""
        lines = self.logs[job_id]
        line = LogLine(sequence=len(lines) + 1, time=now(), message=message)
        lines.append(line)
        if told:
            await self.send(JobEvent(job_id=job_id, log=line))

    async def send(self, *events: JobEvent) -> None:
        """Events of one job."""
        batch = EventBatch(events=events)
        subject = f"jm.ev.{bucket_of(events[0].job_id)}"
        await self.nats.publish(subject, batch.SerializeToString())
        await self.nats.flush(2)

    def wants(self, job_id: str) -> bool:
        """Whether a gateway asked for events of the job."""
        bucket = bucket_of(job_id)
        return bool(self.announced) and bool(self.announced[bucket // 8] >> bucket % 8 & 1)

    async def hear(self, message: Msg) -> None:
        self.announced = WatchAnnouncement.FromString(message.data).buckets

    # What a gateway asks.

    def _begin(self, method: str, request: object) -> None:
        self.calls[method].append(request)
        if self.failure is not None:
            raise self.failure

    def _job(self, job_id: str) -> Job:
        if job_id not in self.jobs:
            raise NotFound.job(job_id)
        return self.jobs[job_id]

    async def SubmitJobs(
        self, request: pb.SubmitJobsRequest, context: object
    ) -> pb.SubmitJobsResponse:
        self._begin("SubmitJobs", request)
        await self.submit_gate.wait()
        results = []
        for submission in request.submissions:
            error = self.refused_types.get(submission.job.type)
            if error is not None:
                results.append(pb.SubmitJobsResult(error=to_status(error)))
                continue
            job = Job(job_id=submission.job_id, namespace="default", spec=submission.job)
            self.jobs[job.job_id] = job
            self._enter(job, JobState.JOB_STATE_QUEUED)
            ok = SubmitJobResponse(job=basic(job), created=True)
            results.append(pb.SubmitJobsResult(ok=ok))
        return pb.SubmitJobsResponse(results=results)

    async def ReadJobs(self, request: pb.ReadJobsRequest, context: object) -> pb.ReadJobsResponse:
        self._begin("ReadJobs", request)
        jobs = [self.jobs[job_id] for job_id in request.job_ids if job_id in self.jobs]
        if request.view == JOB_VIEW_BASIC:
            jobs = [basic(job) for job in jobs]
        return pb.ReadJobsResponse(jobs=jobs)

    async def FindJobs(self, request: pb.FindJobsRequest, context: object) -> pb.FindJobsResponse:
        self._begin("FindJobs", request)
        jobs = list(self.jobs.values())[: request.request.page_size]
        return pb.FindJobsResponse(page=ListJobsResponse(jobs=jobs))

    async def StopJob(self, request: pb.StopJobRequest, context: object) -> pb.StopJobResponse:
        self._begin("StopJob", request)
        job = self._job(request.request.job_id)
        await self.change(job.job_id, JobState.JOB_STATE_CANCELLED)
        return pb.StopJobResponse(job=job)

    async def ReviveJob(
        self, request: pb.ReviveJobRequest, context: object
    ) -> pb.ReviveJobResponse:
        self._begin("ReviveJob", request)
        job = self._job(request.request.job_id)
        await self.change(job.job_id, JobState.JOB_STATE_QUEUED)
        return pb.ReviveJobResponse(job=job)

    async def ReadAttempts(
        self, request: pb.ReadAttemptsRequest, context: object
    ) -> pb.ReadAttemptsResponse:
        self._begin("ReadAttempts", request)
        self._job(request.job_id)
        return pb.ReadAttemptsResponse(attempts=[Attempt(attempt=1), Attempt(attempt=2)])

    async def ReadLogPage(
        self, request: pb.ReadLogPageRequest, context: object
    ) -> pb.ReadLogPageResponse:
        self._begin("ReadLogPage", request)
        self._job(request.job_id)
        lines = self.logs[request.job_id][request.after_sequence :]
        return pb.ReadLogPageResponse(lines=lines[: request.page_size])

    async def ReadQueues(
        self, request: pb.ReadQueuesRequest, context: object
    ) -> pb.ReadQueuesResponse:
        self._begin("ReadQueues", request)
        names = list(request.names) or sorted(self.queues)
        found = [self.queues[name] for name in names if name in self.queues]
        return pb.ReadQueuesResponse(queues=found)

    async def ChangeQueue(
        self, request: pb.ChangeQueueRequest, context: object
    ) -> pb.ChangeQueueResponse:
        self._begin("ChangeQueue", request)
        return pb.ChangeQueueResponse(queue=request.request.queue)

    async def SetQueuePaused(
        self, request: pb.SetQueuePausedRequest, context: object
    ) -> pb.SetQueuePausedResponse:
        self._begin("SetQueuePaused", request)
        if request.name not in self.queues:
            raise NotFound.queue(request.name)
        queue = self.queues[request.name]
        queue.dispatch_paused, queue.pause_note = request.paused, request.note
        return pb.SetQueuePausedResponse(queue=queue)

    async def DescribeDispatcher(
        self, request: pb.DescribeDispatcherRequest, context: object
    ) -> pb.DescribeDispatcherResponse:
        self._begin("DescribeDispatcher", request)
        return pb.DescribeDispatcherResponse(dispatcher_id="a")

    async def PromoteJobs(
        self, request: pb.PromoteJobsRequest, context: object
    ) -> pb.PromoteJobsResponse:
        raise Unimplemented("only a leader asks for this")

    async def ReadSessions(
        self, request: pb.ReadSessionsRequest, context: object
    ) -> pb.ReadSessionsResponse:
        raise Unimplemented("only a leader asks for this")

    async def ExpireSession(
        self, request: pb.ExpireSessionRequest, context: object
    ) -> pb.ExpireSessionResponse:
        raise Unimplemented("only a leader asks for this")

    async def Reconcile(
        self, request: pb.ReconcileRequest, context: object
    ) -> pb.ReconcileResponse:
        raise Unimplemented("only a leader asks for this")

    async def Retain(self, request: pb.RetainRequest, context: object) -> pb.RetainResponse:
        raise Unimplemented("only a leader asks for this")


def basic(job: Job) -> Job:
    """As in the BASIC view."""
    view = Job()
    view.CopyFrom(job)
    for field in ("result", "checkpoint", "history"):
        view.ClearField(field)
    view.spec.ClearField("payload")
    return view


@asynccontextmanager
async def serving(peer: Peer, nats_url: str = "", port: int = 0) -> AsyncIterator[GrpcServer]:
    """The peer, listening and, if there is a NATS, connected."""
    entry = (add_DispatchServiceServicer_to_server, peer, FULL_NAME)
    server = GrpcServer("127.0.0.1", port, [entry], drain_seconds=0.0, grace_seconds=0.2)
    await server.start()
    if nats_url:
        await peer.nats.connect(nats_url, reconnect_time_wait=1, max_reconnect_attempts=-1)
        await peer.nats.subscribe("jm.watch", cb=peer.hear)
    try:
        yield server
    finally:
        if nats_url:
            await peer.nats.close()
        await server.stop()


def requests_of(peer: Peer, method: str) -> Sequence[object]:
    """What was asked."""
    return peer.calls[method]
