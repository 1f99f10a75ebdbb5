"""WatchJob: what a watch tells, until its job ends."""

from __future__ import annotations

from collections.abc import AsyncGenerator

from jobmesh.errors import Draining
from jobmesh.v1.job_pb2 import JobEvent
from jobmesh_gateway.telling import reconnect
from jobmesh_gateway.watching import JobWatch, TooSlow


async def watch_job(watch: JobWatch, job_id: str) -> AsyncGenerator[JobEvent, None]:
    """The events of the watch; a stream that ends early says `reconnect` before its error."""
    async with watch:
        try:
            while not watch.ended:
                for event in await watch.next():
                    yield event
        except (Draining, TooSlow):
            yield reconnect(job_id, watch.revision)
            raise
