"""Waiting for the end of a job."""

from __future__ import annotations

import asyncio
from datetime import timedelta

from jobmesh.client.calls import Calls
from jobmesh.client.info import JobInfo, job_info
from jobmesh.client.times import to_duration
from jobmesh.v1 import job_service_pb2

# One call waits no longer, so that a lost gateway is noticed; the next call goes on.
LONGEST_CALL = 60.0
# What the answer may take beyond the wait itself.
MARGIN = 10.0


async def wait_for_end(calls: Calls, job_id: str, timeout: float | None) -> JobInfo:
    """The job (FULL), once it is terminal.

    Raises:
        TimeoutError: it was not within ``timeout`` seconds.
        JobmeshError: the job cannot be read, or the mesh stays unavailable.
    """
    clock = asyncio.get_running_loop().time
    deadline = None if timeout is None else clock() + timeout
    while True:
        left = LONGEST_CALL if deadline is None else max(deadline - clock(), 0.0)
        request = job_service_pb2.WaitJobRequest(
            job_id=job_id, timeout=to_duration(timedelta(seconds=min(left, LONGEST_CALL)))
        )
        job = job_info(
            await calls.unary(calls.jobs.WaitJob, request, timeout=request.timeout.seconds + MARGIN)
        )
        if job.done:
            return job
        if deadline is not None and clock() >= deadline:
            raise TimeoutError(f"job {job_id} is still {job.state} after {timeout:g} s")
