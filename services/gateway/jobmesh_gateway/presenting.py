"""Jobs on their way to a reader."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import TypeVar

from google.protobuf.message import Message

from jobmesh.channels import MAX_MESSAGE_BYTES
from jobmesh.payload import present
from jobmesh.v1.job_pb2 import Job
from jobmesh_gateway.dispatchers import AnswerTooLarge

M = TypeVar("M", bound=Message)

# With room for headers.
MAX_ANSWER_BYTES = MAX_MESSAGE_BYTES - (64 << 10)

# Above it payloads are converted in a thread: the loop must not stand still for it.
LARGE_BYTES = 32 << 10
_SLICE = 50


async def present_jobs(jobs: Iterable[Job]) -> None:
    """Turn the payloads of FULL jobs into `json` where that loses nothing, in place."""
    for count, job in enumerate(jobs):
        if job.ByteSize() > LARGE_BYTES:
            await asyncio.to_thread(_present, job)
        else:
            _present(job)
        if count % _SLICE == _SLICE - 1:
            await asyncio.sleep(0)


def _present(job: Job) -> None:
    # Asked for first: touching a field that is not there would allocate it.
    if job.HasField("spec") and job.spec.HasField("payload"):
        present(job.spec.payload)
    if job.HasField("checkpoint"):
        present(job.checkpoint)
    if job.HasField("result"):
        present(job.result)


def require_sendable(message: M) -> M:
    """The message, if it fits: a Value takes more bytes than its JSON.

    :raises AnswerTooLarge: it does not.
    """
    if message.ByteSize() > MAX_ANSWER_BYTES:
        raise AnswerTooLarge
    return message
