"""A job's log, read to the end or followed until the job ends."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing

from jobmesh.client.calls import Calls
from jobmesh.client.info import LogLine, log_line_of
from jobmesh.client.patience import Patience
from jobmesh.client.watching import STREAM_SECONDS
from jobmesh.errors import DeadlineExceeded, JobmeshError, Unavailable
from jobmesh.v1 import job_service_pb2


async def read_log(
    calls: Calls, job_id: str, after_sequence: int, follow: bool
) -> AsyncGenerator[LogLine, None]:
    """The lines in order, each once, over as many streams as it takes.

    Raises:
        JobmeshError: the log cannot be read, or the mesh stays unavailable.
    """
    patience = Patience(calls.connection.patience)
    while True:
        lost: JobmeshError | None = None
        request = job_service_pb2.ReadLogRequest(
            job_id=job_id, after_sequence=after_sequence, follow=follow
        )
        stream = calls.stream(calls.jobs.ReadLog, request, timeout=STREAM_SECONDS)
        try:
            async with aclosing(stream):
                async for line in stream:
                    patience.reset()
                    after_sequence = max(after_sequence, line.sequence)
                    yield log_line_of(line)
        except (Unavailable, DeadlineExceeded) as error:
            lost = error
        if lost is None:
            return
        await patience.pause(lost)
