"""What a runner and the processes that it runs handlers in tell each other, as msgpack.

``run`` is the number of a run within its process: what belongs to an earlier one is not heard.
"""

from __future__ import annotations

import msgspec


class Message(msgspec.Struct, frozen=True, tag=True):
    """One of these."""


# From the runner.


class Run(Message, frozen=True):
    """Run this: an `Assignment`, and the limit of a result and a checkpoint in bytes."""

    run: int
    assignment: bytes
    limit_bytes: int


class StopHandler(Message, frozen=True):
    """Tell the handler to stop; ``kind`` is the name of a `StopKind`."""

    run: int
    kind: str
    detail: str


class CheckpointAnswer(Message, frozen=True):
    """The checkpoint is durable, or the lease is lost."""

    run: int
    sequence: int
    is_lost: bool


class StepAnswer(Message, frozen=True):
    """What is stored of a step; or the lease is lost, or the job has too many."""

    run: int
    sequence: int
    result: bytes | None = None
    is_lost: bool = False
    is_refused: bool = False


# From the process.


class Ready(Message, frozen=True):
    """It can run handlers."""


class Progressed(Message, frozen=True):
    """How far the handler is."""

    fraction: float
    message: str
    current: int
    total: int
    time_ns: int


class Logged(Message, frozen=True):
    """A line."""

    level: int
    message: str
    time_ns: int


class CheckpointAsked(Message, frozen=True):
    """To be stored."""

    sequence: int
    data: bytes


class StepAsked(Message, frozen=True):
    """To be stored; or, without a result, asked for."""

    sequence: int
    key: str
    result: bytes | None


class Lives(Message, frozen=True):
    """A sign of life."""


class Ended(Message, frozen=True):
    """How the handler ended: a `Report`; None if the lease was lost."""

    report: bytes | None


ToWorker = Run | StopHandler | CheckpointAnswer | StepAnswer
FromWorker = Ready | Progressed | Logged | CheckpointAsked | StepAsked | Lives | Ended

encode = msgspec.msgpack.Encoder().encode
decode_to_worker = msgspec.msgpack.Decoder(ToWorker).decode
decode_from_worker = msgspec.msgpack.Decoder(FromWorker).decode
MOST_BYTES = 32 << 20
