"""JobService: each call checked, then handed to what does it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import aclosing

from jobmesh.ids import parse_job_id
from jobmesh.v1 import job_service_pb2 as pb
from jobmesh.v1.job_pb2 import JOB_VIEW_BASIC, JOB_VIEW_FULL, Job, JobEvent, LogLine
from jobmesh.v1.job_service_pb2_grpc import JobServiceServicer
from jobmesh_gateway import checks
from jobmesh_gateway.control import JobControl
from jobmesh_gateway.dispatchers import Context, seconds_for
from jobmesh_gateway.following import follow_log
from jobmesh_gateway.listing import JobLists
from jobmesh_gateway.presenting import require_sendable
from jobmesh_gateway.reader import JobReader
from jobmesh_gateway.streams import watch_job
from jobmesh_gateway.submit import Submitter
from jobmesh_gateway.unbuilt import no_events, not_built
from jobmesh_gateway.waiting import wait_job
from jobmesh_gateway.watching import Watching

FULL_NAME = "jobmesh.v1.JobService"


class JobServicer(JobServiceServicer):
    """What the protos say of JobService. Errors are raised; the server turns them into statuses."""

    def __init__(
        self,
        submitter: Submitter,
        reader: JobReader,
        lists: JobLists,
        control: JobControl,
        watching: Watching,
    ) -> None:
        self._submitter = submitter
        self._reader = reader
        self._lists = lists
        self._control = control
        self._watching = watching

    async def SubmitJob(
        self, request: pb.SubmitJobRequest, context: Context
    ) -> pb.SubmitJobResponse:
        return await self._submitter.submit(request)

    async def BatchSubmitJobs(
        self, request: pb.BatchSubmitJobsRequest, context: Context
    ) -> pb.BatchSubmitJobsResponse:
        return await self._submitter.submit_batch(request, seconds_for(context))

    async def GetJob(self, request: pb.GetJobRequest, context: Context) -> Job:
        job_id = parse_job_id(request.job_id)
        return await self._reader.read(job_id, checks.checked_view(request.view, JOB_VIEW_FULL))

    async def BatchGetJobs(
        self, request: pb.BatchGetJobsRequest, context: Context
    ) -> pb.BatchGetJobsResponse:
        job_ids = checks.checked_ids(request)
        view = checks.checked_view(request.view, JOB_VIEW_BASIC)
        jobs = await self._reader.read_many(job_ids, view, seconds_for(context))
        return require_sendable(pb.BatchGetJobsResponse(jobs=jobs))

    async def ListJobs(self, request: pb.ListJobsRequest, context: Context) -> pb.ListJobsResponse:
        return await self._lists.jobs(request, seconds_for(context))

    async def ListAttempts(
        self, request: pb.ListAttemptsRequest, context: Context
    ) -> pb.ListAttemptsResponse:
        return await self._lists.attempts(request, seconds_for(context))

    async def WatchJob(
        self, request: pb.WatchJobRequest, context: Context
    ) -> AsyncIterator[JobEvent]:
        job_id, kinds = checks.checked_watch(request)
        watch = self._watching.open(job_id, kinds, request.after_revision)
        # Closed here and now: a watch that was left must not wait for the collector.
        async with aclosing(watch_job(watch, job_id)) as events:
            async for event in events:
                yield event

    async def WaitJob(self, request: pb.WaitJobRequest, context: Context) -> Job:
        job_id, seconds = checks.checked_wait(request)
        return await wait_job(self._watching, job_id, seconds)

    async def ReadLog(self, request: pb.ReadLogRequest, context: Context) -> AsyncIterator[LogLine]:
        job_id = checks.checked_log(request)
        if request.follow:
            lines = follow_log(self._lists, self._watching, job_id, request.after_sequence)
        else:
            lines = self._lists.log(job_id, request.after_sequence)
        async with aclosing(lines):
            async for line in lines:
                yield line

    async def CancelJob(self, request: pb.CancelJobRequest, context: Context) -> Job:
        return await self._control.cancel(request, seconds_for(context))

    async def RetryJob(self, request: pb.RetryJobRequest, context: Context) -> Job:
        return await self._control.retry(request, seconds_for(context))

    async def WatchJobs(
        self, request: pb.WatchJobsRequest, context: Context
    ) -> AsyncIterator[JobEvent]:
        for event in no_events("WatchJobs", "watch jobs one by one with WatchJob"):
            yield event

    async def BatchCancelJobs(
        self, request: pb.BatchCancelJobsRequest, context: Context
    ) -> pb.BatchCancelJobsResponse:
        not_built("BatchCancelJobs", "list the jobs and cancel them with CancelJob")

    async def BatchRetryJobs(
        self, request: pb.BatchRetryJobsRequest, context: Context
    ) -> pb.BatchRetryJobsResponse:
        not_built("BatchRetryJobs", "list the jobs and retry them with RetryJob")

    async def DeleteJob(
        self, request: pb.DeleteJobRequest, context: Context
    ) -> pb.DeleteJobResponse:
        not_built("DeleteJob", "terminal jobs are dropped after their retention")

    async def BatchDeleteJobs(
        self, request: pb.BatchDeleteJobsRequest, context: Context
    ) -> pb.BatchDeleteJobsResponse:
        not_built("BatchDeleteJobs", "terminal jobs are dropped after their retention")

    async def ExplainJob(
        self, request: pb.ExplainJobRequest, context: Context
    ) -> pb.ExplainJobResponse:
        not_built("ExplainJob", "GetJob tells state, reason and hold_reason")

    async def SignalJob(
        self, request: pb.SignalJobRequest, context: Context
    ) -> pb.SignalJobResponse:
        not_built("SignalJob", "CancelJob is all that reaches a running handler")

    async def QueryJob(self, request: pb.QueryJobRequest, context: Context) -> pb.QueryJobResponse:
        not_built("QueryJob", "WatchJob tells a handler's progress")
