"""Changes that a person makes to a job."""

from __future__ import annotations

import asyncio

from jobmesh.ids import new_id
from jobmesh.payload import Normal
from jobmesh.v1.dispatch_service_pb2 import ReviveJobRequest, StopJobRequest
from jobmesh.v1.job_pb2 import Job
from jobmesh.v1.job_service_pb2 import CancelJobRequest, RetryJobRequest
from jobmesh_gateway.checks import checked_cancel, checked_retry
from jobmesh_gateway.dispatchers import Dispatchers, answer
from jobmesh_gateway.presenting import present_jobs
from jobmesh_gateway.submit import LARGE_BYTES


class JobControl:
    """Cancels and retries."""

    def __init__(self, dispatchers: Dispatchers, namespace: str, payload_limit: int) -> None:
        self._dispatchers = dispatchers
        self._namespace = namespace
        self._limit = payload_limit

    async def cancel(self, request: CancelJobRequest, seconds: float) -> Job:
        """Cancel a job, durably; the job after it, FULL."""
        request.job_id = checked_cancel(request)
        stop = StopJobRequest(namespace=self._namespace, request=request)
        stopped = await answer(self._dispatchers.stub.StopJob(stop, timeout=seconds))
        await present_jobs((stopped.job,))
        return stopped.job

    async def retry(self, request: RetryJobRequest, seconds: float) -> Job:
        """Queue a terminal job again; the job after it, FULL."""
        request.job_id, payload = await self._check_retry(request)
        if payload is not None:
            request.payload.data = payload.data
            request.payload.content_type = payload.content_type
        revive = ReviveJobRequest(namespace=self._namespace, request=request, operation_id=new_id())
        revived = await answer(self._dispatchers.stub.ReviveJob(revive, timeout=seconds))
        await present_jobs((revived.job,))
        return revived.job

    async def _check_retry(self, request: RetryJobRequest) -> tuple[str, Normal | None]:
        if request.ByteSize() > LARGE_BYTES:
            return await asyncio.to_thread(checked_retry, request, self._limit)
        return checked_retry(request, self._limit)
