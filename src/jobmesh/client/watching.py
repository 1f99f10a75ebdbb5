"""A watch that goes on by itself when a stream is lost."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterable
from contextlib import aclosing

from jobmesh.client.calls import Calls
from jobmesh.client.events import Event
from jobmesh.client.follower import Follower
from jobmesh.client.patience import Patience
from jobmesh.errors import DeadlineExceeded, JobmeshError, Unavailable
from jobmesh.v1 import job_service_pb2

# A deadline for each stream; the watch itself has none.
STREAM_SECONDS = 3600.0
_INCLUDE = {
    "progress": job_service_pb2.WATCH_INCLUDE_PROGRESS,
    "log": job_service_pb2.WATCH_INCLUDE_LOG,
    "checkpoint": job_service_pb2.WATCH_INCLUDE_CHECKPOINT,
}


def kinds_of(include: Iterable[str]) -> list[job_service_pb2.WatchInclude.ValueType]:
    """What to include beside changes of state, as on the wire.

    Raises:
        ValueError: a kind is unknown.
    """
    names = list(include)
    if unknown := [name for name in names if name not in _INCLUDE]:
        raise ValueError(f"cannot include {unknown[0]!r}; the kinds are {', '.join(_INCLUDE)}")
    return [_INCLUDE[name] for name in names] or [job_service_pb2.WATCH_INCLUDE_STATES_ONLY]


async def watch_job(
    calls: Calls,
    job_id: str,
    after_revision: int,
    kinds: list[job_service_pb2.WatchInclude.ValueType],
) -> AsyncGenerator[Event, None]:
    """Everything that happens to the job until it ends, over as many streams as it takes.

    Raises:
        JobmeshError: the job cannot be watched, or the mesh stays unavailable.
    """
    follower = Follower(after_revision)
    patience = Patience(calls.connection.patience)
    begun = False
    while True:
        lost: JobmeshError = Unavailable("the mesh ended the watch before the job ended")
        request = job_service_pb2.WatchJobRequest(
            job_id=job_id, after_revision=follower.revision, include=kinds
        )
        stream = calls.stream(calls.jobs.WatchJob, request, timeout=STREAM_SECONDS)
        try:
            async with aclosing(stream):
                async for message in stream:
                    patience, begun = _once_begun(calls, patience, begun), True
                    for event in follower.accept(message):
                        yield event
                    if follower.ended or follower.resume:
                        break
        except (Unavailable, DeadlineExceeded) as error:
            lost = error
        if follower.ended:
            return
        follower.resume = False
        await patience.pause(lost)


def _once_begun(calls: Calls, patience: Patience, begun: bool) -> Patience:
    if begun:
        patience.reset()
        return patience
    return Patience(calls.connection.patience_once_begun)
