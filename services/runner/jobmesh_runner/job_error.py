"""What is told of an exception: its class, its text, where it was raised; each of bounded size."""

from __future__ import annotations

import traceback

from jobmesh.v1.job_pb2 import JobError
from jobmesh_runner.wire_text import cut, head_and_tail

TYPE_CHARACTERS = 200
MESSAGE_CHARACTERS = 4000
TRACEBACK_BYTES = 64 << 10
_FRAMES = 100  # of each exception in a chain; a recursion's thousand frames say no more


def job_error(error: BaseException, *, retryable: bool = True) -> JobError:
    """The exception as it is stored with the attempt."""
    return JobError(
        type=cut(type(error).__name__, TYPE_CHARACTERS),
        message=cut(_text(error), MESSAGE_CHARACTERS),
        traceback=head_and_tail(_traceback(error), TRACEBACK_BYTES),
        retryable=retryable,
    )


def _text(error: BaseException) -> str:
    try:
        return str(error)
    except Exception as broken:  # a user's __str__
        return f"<its text cannot be read: {type(broken).__name__}>"


def _traceback(error: BaseException) -> str:
    try:
        shown = traceback.TracebackException.from_exception(error, limit=-_FRAMES)
        return "".join(shown.format(chain=True))
    except Exception as broken:
        return f"<its traceback cannot be read: {type(broken).__name__}>"
