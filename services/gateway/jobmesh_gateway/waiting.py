"""WaitJob: a watch of which only the end is told."""

from __future__ import annotations

import asyncio

from jobmesh.v1.job_pb2 import Job
from jobmesh_gateway.watching import JobWatch, Watching


async def wait_job(watching: Watching, job_id: str, seconds: float) -> Job:
    """The terminal job, or the job as it is after so many seconds.

    :raises NotFound: there is no such job.
    """
    if seconds > 0:
        try:
            async with asyncio.timeout(seconds), watching.open(job_id, ()) as watch:
                return await _end_of(watch)
        except TimeoutError:
            pass  # the caller's own limit, and no error
    return await watching.reader.read(job_id)


async def _end_of(watch: JobWatch) -> Job:
    while not watch.ended:
        await watch.next()
    assert watch.job is not None
    return watch.job
