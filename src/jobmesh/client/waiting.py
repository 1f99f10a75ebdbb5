"""Waiting for the end of a job."""

from __future__ import annotations

import asyncio
import math
from datetime import timedelta

from jobmesh.client.calls import Calls
from jobmesh.client.info import JobInfo, job_info
from jobmesh.client.patience import Patience
from jobmesh.client.times import to_duration
from jobmesh.errors import DeadlineExceeded, Unavailable
from jobmesh.v1 import job_service_pb2

# One call waits no longer, so that a lost gateway is noticed; the next call goes on.
LONGEST_CALL = 60.0
# What the answer may take beyond the wait itself.
MARGIN = 10.0


async def wait_for_end(calls: Calls, job_id: str, timeout: float | None) -> JobInfo:
    """The job (FULL), once it is terminal. An outage shorter than the patience is sat out.

    Raises:
        TimeoutError: it was not within ``timeout`` seconds.
        JobmeshError: the job cannot be read, or the mesh stays unavailable: for the patience, or
            until ``timeout``.
    """
    clock = asyncio.get_running_loop().time
    deadline = math.inf if timeout is None else clock() + timeout
    patience = Patience(calls.connection.patience)
    while True:
        try:
            job = await _wait(calls, job_id, min(max(deadline - clock(), 0.0), LONGEST_CALL))
        except (Unavailable, DeadlineExceeded) as error:
            if clock() >= deadline:
                raise
            await patience.pause(error)
            continue
        patience.reset()
        if job.done:
            return job
        if clock() >= deadline:
            raise TimeoutError(f"job {job_id} is still {job.state} after {timeout:g} s")


async def _wait(calls: Calls, job_id: str, seconds: float) -> JobInfo:
    """The job once it is terminal, or as it is after so many seconds: one call, tried once."""
    request = job_service_pb2.WaitJobRequest(
        job_id=job_id, timeout=to_duration(timedelta(seconds=seconds))
    )
    job = await calls.try_once(calls.jobs.WaitJob, request, timeout=seconds + MARGIN)
    return job_info(job)
