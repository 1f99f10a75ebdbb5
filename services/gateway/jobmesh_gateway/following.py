"""ReadLog with `follow`: the log as it is stored, and on as it grows.

The stored log is authoritative; events only say that there is more, and save reading it where they
are the next lines.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterable

from jobmesh.v1.job_pb2 import JobEvent, LogLine
from jobmesh_gateway.listing import JobLists
from jobmesh_gateway.watching import Watching


async def follow_log(
    lists: JobLists, watching: Watching, job_id: str, after_sequence: int
) -> AsyncGenerator[LogLine, None]:
    """The lines after the given one, none left out, until the job has ended.

    :raises NotFound: there is no such job.
    """
    last = after_sequence
    async with watching.open(job_id, ("log",)) as watch:
        complete = False
        while True:
            if not complete:
                async for line in lists.log(job_id, last):
                    last = line.sequence
                    yield line
            if watch.ended:
                return
            events = await watch.next()
            lines, complete = _next_lines(events, last)
            for line in lines:
                last = line.sequence
                yield line


def _next_lines(events: Iterable[JobEvent], last: int) -> tuple[list[LogLine], bool]:
    """The lines that follow directly, and whether nothing else is to be read.

    Anything that is no log line (a change of state, a heartbeat) is a reason to look: lines may
    have been lost, or the job may have ended.
    """
    lines: list[LogLine] = []
    complete = True
    for event in events:
        if not event.HasField("log"):
            complete = False
        elif event.log.sequence == last + len(lines) + 1:
            lines.append(event.log)
        elif event.log.sequence > last:
            complete = False
    return lines, complete
