"""What a firing does while jobs of earlier ones have not ended. Pure: it decides, and does nothing.

The states that it goes by are two numbers: how many jobs of the schedule are active, and how many
of its firings wait in the buffer.
"""

from __future__ import annotations

from enum import Enum

MOST_BUFFERED = 1000


class Overlap(Enum):
    """The policies."""

    ALLOW = "allow"
    SKIP = "skip"
    BUFFER_ONE = "buffer_one"
    BUFFER_ALL = "buffer_all"
    CANCEL_RUNNING = "cancel_running"
    TERMINATE_RUNNING = "terminate_running"


class Decision(Enum):
    """What a firing does.

    CANCEL asks the active jobs to stop, and waits in the buffer in place of what waits there.
    TERMINATE ends them at once, drops what waits, and submits.
    """

    SUBMIT = "submit"
    BUFFER = "buffer"
    SKIP = "skip"
    CANCEL = "cancel"
    TERMINATE = "terminate"


def decide(policy: Overlap, active: int, buffered: int) -> Decision:
    """What the next firing of a schedule does."""
    if policy is Overlap.ALLOW:
        return Decision.SUBMIT
    if policy is Overlap.TERMINATE_RUNNING:
        return Decision.TERMINATE if active or buffered else Decision.SUBMIT
    if not active and not buffered:
        return Decision.SUBMIT
    match policy:
        case Overlap.BUFFER_ONE:
            return Decision.SKIP if buffered else Decision.BUFFER
        case Overlap.BUFFER_ALL:
            return Decision.SKIP if buffered >= MOST_BUFFERED else Decision.BUFFER
        case Overlap.CANCEL_RUNNING:
            return Decision.CANCEL
    return Decision.SKIP
