"""The states of a job, and every transition between them: the one place where they are written.

The enum in `job.proto`, the CHECK constraints of the first migration and the diagram in
`docs/architecture.md` say the same, and a test holds them together.
"""

from __future__ import annotations

from enum import StrEnum


class State(StrEnum):
    """Where a job is in its life; the names are those of `JobState`, and of the database."""

    SCHEDULED = "SCHEDULED"
    QUEUED = "QUEUED"
    RUNNING = "RUNNING"
    RETRYING = "RETRYING"
    CANCELLING = "CANCELLING"
    SUCCEEDED = "SUCCEEDED"
    CANCELLED = "CANCELLED"
    DEAD = "DEAD"


TERMINAL = frozenset({State.SUCCEEDED, State.CANCELLED, State.DEAD})
LIVE = frozenset(State) - TERMINAL
LEASED = frozenset({State.RUNNING, State.CANCELLING})
WAITING_FOR_TIME = frozenset({State.SCHEDULED, State.RETRYING})
INITIAL = frozenset({State.SCHEDULED, State.QUEUED})

TRANSITIONS: dict[State, frozenset[State]] = {
    # promotion when due; cancel, expiry
    State.SCHEDULED: frozenset({State.QUEUED, State.CANCELLED}),
    # claim; cancel, expiry; delivered too often
    State.QUEUED: frozenset({State.RUNNING, State.CANCELLED, State.DEAD}),
    # report; lost, drained or handed over; snooze; cancel
    State.RUNNING: frozenset(
        {
            State.SUCCEEDED,
            State.DEAD,
            State.RETRYING,
            State.QUEUED,
            State.SCHEDULED,
            State.CANCELLING,
        }
    ),
    # promotion when due; cancel, expiry
    State.RETRYING: frozenset({State.QUEUED, State.CANCELLED}),
    # report, or the end of its session; a handler that completed all the same
    State.CANCELLING: frozenset({State.CANCELLED, State.SUCCEEDED}),
    # retry by a person
    State.SUCCEEDED: frozenset({State.QUEUED}),
    State.CANCELLED: frozenset({State.QUEUED}),
    State.DEAD: frozenset({State.QUEUED}),
}
