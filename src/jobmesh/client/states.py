"""The enums of the contract as strings, which print well and compare with plain text."""

from __future__ import annotations

from enum import StrEnum
from typing import Any, Self

from jobmesh.states import State
from jobmesh.v1 import job_pb2


class _Named(StrEnum):
    @classmethod
    def of(cls, proto: Any, number: int) -> Self:
        """The member for a number of the generated enum ``proto``.

        UNSPECIFIED for one that this version lacks.
        """
        try:
            return cls(short_name(proto.Name(number)))
        except ValueError:
            return cls("")


class JobReason(_Named):
    """Why a job is in its state; empty where it moved along its ordinary path."""

    UNSPECIFIED = ""
    COMPLETED = "COMPLETED"
    FAILED = "FAILED"
    NON_RETRYABLE = "NON_RETRYABLE"
    CRASHED = "CRASHED"
    TIMED_OUT = "TIMED_OUT"
    EXPIRED = "EXPIRED"
    CANCELLED = "CANCELLED"
    MAX_DELIVER = "MAX_DELIVER"
    INTERRUPTED = "INTERRUPTED"
    SNOOZED = "SNOOZED"
    RETRIED = "RETRIED"


class HoldReason(_Named):
    """Why a QUEUED job is not being started; empty if nothing holds it."""

    UNSPECIFIED = ""
    QUEUE_PAUSED = "QUEUE_PAUSED"
    MAX_RUNNING = "MAX_RUNNING"
    NO_RUNNER = "NO_RUNNER"
    CONCURRENCY_KEY = "CONCURRENCY_KEY"
    RATE_LIMIT = "RATE_LIMIT"


class AttemptOutcome(_Named):
    """How an attempt ended; empty while it runs."""

    UNSPECIFIED = ""
    SUCCEEDED = "SUCCEEDED"
    FAILED = "FAILED"
    TIMED_OUT = "TIMED_OUT"
    CANCELLED = "CANCELLED"
    SNOOZED = "SNOOZED"
    INTERRUPTED = "INTERRUPTED"
    LOST = "LOST"


class LogLevel(_Named):
    """How much a log line matters."""

    UNSPECIFIED = ""
    DEBUG = "DEBUG"
    INFO = "INFO"
    WARNING = "WARNING"
    ERROR = "ERROR"


# Longest first, so that each name loses its own prefix.
_PREFIXES = (
    "ATTEMPT_OUTCOME_",
    "RESTART_POLICY_",
    "HOLD_REASON_",
    "JOB_REASON_",
    "JOB_STATE_",
    "LOG_LEVEL_",
    "OVERLAP_POLICY_",
    "CATCHUP_POLICY_",
    "FIRING_KIND_",
    "FIRING_OUTCOME_",
)


def short_name(name: str) -> str:
    """``QUEUED`` for ``JOB_STATE_QUEUED``; empty for what is unspecified."""
    for prefix in _PREFIXES:
        if name.startswith(prefix):
            name = name.removeprefix(prefix)
            break
    return "" if name == "UNSPECIFIED" else name


def state_of(number: job_pb2.JobState.ValueType) -> State:
    """The state for its number on the wire.

    Raises:
        ValueError: this version does not know it.
    """
    name = job_pb2.JobState.Name(number)
    return State(short_name(name))


def state_number(name: str) -> job_pb2.JobState.ValueType:
    """The number on the wire of a state by either name, in any case.

    Raises:
        ValueError: there is no such state; the message lists them.
    """
    wanted = short_name(name.strip().upper())
    if wanted not in set(State):
        known = ", ".join(State)
        raise ValueError(f"no such state: {name!r}; the states are {known}")
    return job_pb2.JobState.Value(f"JOB_STATE_{wanted}")
