"""A job's log, read to the end or followed until the job ends."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing

from jobmesh.client.calls import Calls
from jobmesh.client.info import LogLine, log_line_of
from jobmesh.client.patience import Patience
from jobmesh.client.watching import STREAM_SECONDS
from jobmesh.errors import DeadlineExceeded, JobmeshError, Unavailable
from jobmesh.v1 import job_service_pb2

LIVED_SECONDS = 15.0
"""A stream that lasted so long was served, though the job may have logged nothing.

Longer than it takes to notice that a peer is dead (7 s), or a gateway that no dispatcher answers
(10 s).
"""


async def read_log(
    calls: Calls, job_id: str, after_sequence: int, follow: bool
) -> AsyncGenerator[LogLine, None]:
    """The lines in order, each once, over as many streams as it takes.

    Once a stream was served, outages are sat out as by a watch that has begun.

    Raises:
        JobmeshError: the log cannot be read, or the mesh stays unavailable.
    """
    clock = asyncio.get_running_loop().time
    patience = Patience(calls.connection.patience)
    while True:
        lost: JobmeshError | None = None
        served, opened_at = False, clock()
        request = job_service_pb2.ReadLogRequest(
            job_id=job_id, after_sequence=after_sequence, follow=follow
        )
        stream = calls.stream(calls.jobs.ReadLog, request, timeout=STREAM_SECONDS)
        try:
            async with aclosing(stream):
                async for line in stream:
                    served = True
                    after_sequence = max(after_sequence, line.sequence)
                    yield log_line_of(line)
        except (Unavailable, DeadlineExceeded) as error:
            lost = error
        if lost is None:
            return
        if served or clock() - opened_at >= LIVED_SECONDS:
            patience = Patience(calls.connection.patience_once_begun)
        await patience.pause(lost)
