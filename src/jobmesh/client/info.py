"""A job as it stood when it was read, in Python's own types."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Literal

from jobmesh.client.states import (
    AttemptOutcome,
    HoldReason,
    JobReason,
    LogLevel,
    state_of,
)
from jobmesh.client.times import to_datetime
from jobmesh.client.values import decode_payload
from jobmesh.states import TERMINAL, State
from jobmesh.v1 import job_pb2


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a handler says it is."""

    fraction: float
    message: str = ""
    current: int = 0
    total: int = 0
    time: datetime | None = None


@dataclass(frozen=True, slots=True)
class Failure:
    """Why an attempt failed: the error's class name and text; the traceback in FULL views only."""

    type: str
    message: str
    traceback: str = ""
    retryable: bool = True

    def __str__(self) -> str:
        return f"{self.type}: {self.message}" if self.message else self.type


@dataclass(frozen=True, slots=True)
class Change:
    """One change of a job's state; revisions grow by exactly one."""

    revision: int
    state: State
    reason: JobReason
    time: datetime | None
    attempt: int


@dataclass(frozen=True, slots=True)
class Attempt:
    """One try at running a job; its number is the fencing token."""

    attempt: int
    runner_id: str
    outcome: AttemptOutcome
    start_time: datetime | None
    end_time: datetime | None
    error: Failure | None


@dataclass(frozen=True, slots=True)
class LogLine:
    """A line that a handler logged."""

    sequence: int
    attempt: int
    level: LogLevel
    message: str
    time: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class JobInfo:
    """A job as it stood when it was read.

    ``result``, ``checkpoint``, ``payload`` and ``history`` are empty in BASIC views, as in lists.
    ``proto`` is the message itself, for whatever has no attribute here.
    """

    id: str
    namespace: str
    queue: str
    type: str
    state: State
    reason: JobReason
    hold_reason: HoldReason
    priority: int
    revision: int
    attempt: int
    failures: int
    crashes: int
    labels: dict[str, str]
    progress: Progress | None
    error: Failure | None
    runner_id: str
    timeout: timedelta | None
    create_time: datetime | None
    start_time: datetime | None
    end_time: datetime | None
    next_run_time: datetime | None
    history: tuple[Change, ...]
    cancel_reason: str
    proto: job_pb2.Job = field(repr=False, compare=False)

    @property
    def done(self) -> bool:
        """Whether it is terminal: nothing more happens unless a person retries it."""
        return self.state in TERMINAL

    @property
    def payload(self) -> Any:
        """The handler's arguments."""
        return decode_payload(self.proto.spec.payload)

    @property
    def result(self) -> Any:
        """What the handler returned; None if it has not, or in a BASIC view."""
        return _content(self.proto, "result")

    @property
    def checkpoint(self) -> Any:
        """What the handler last stored durably; None if it has not, or in a BASIC view."""
        return _content(self.proto, "checkpoint")


def job_info(job: job_pb2.Job) -> JobInfo:
    """The message as a :class:`JobInfo`."""
    return JobInfo(
        id=job.job_id,
        namespace=job.namespace,
        queue=job.spec.queue,
        type=job.spec.type,
        state=state_of(job.state),
        reason=JobReason.of(job_pb2.JobReason, job.reason),
        hold_reason=HoldReason.of(job_pb2.HoldReason, job.hold_reason),
        priority=job.spec.priority,
        revision=job.revision,
        attempt=job.attempt,
        failures=job.failures,
        crashes=job.crashes,
        labels=dict(job.spec.labels),
        progress=progress_of(job.progress) if job.HasField("progress") else None,
        error=failure_of(job.error) if job.HasField("error") else None,
        runner_id=job.runner_id,
        timeout=job.spec.timeout.ToTimedelta() if job.spec.HasField("timeout") else None,
        create_time=_time(job, "create_time"),
        start_time=_time(job, "start_time"),
        end_time=_time(job, "end_time"),
        next_run_time=_time(job, "next_run_time"),
        history=tuple(change_of(change) for change in job.history),
        cancel_reason=job.cancel_reason,
        proto=job,
    )


def progress_of(progress: job_pb2.Progress) -> Progress:
    """The message as a :class:`Progress`."""
    return Progress(
        fraction=progress.fraction,
        message=progress.message,
        current=progress.current,
        total=progress.total,
        time=_time(progress, "update_time"),
    )


def failure_of(error: job_pb2.JobError) -> Failure:
    """The message as a :class:`Failure`."""
    return Failure(error.type, error.message, error.traceback, error.retryable)


def change_of(change: job_pb2.StateChange) -> Change:
    """The message as a :class:`Change`."""
    return Change(
        revision=change.revision,
        state=state_of(change.state),
        reason=JobReason.of(job_pb2.JobReason, change.reason),
        time=_time(change, "time"),
        attempt=change.attempt,
    )


def attempt_of(attempt: job_pb2.Attempt) -> Attempt:
    """The message as an :class:`Attempt`."""
    return Attempt(
        attempt=attempt.attempt,
        runner_id=attempt.runner_id,
        outcome=AttemptOutcome.of(job_pb2.AttemptOutcome, attempt.outcome),
        start_time=_time(attempt, "start_time"),
        end_time=_time(attempt, "end_time"),
        error=failure_of(attempt.error) if attempt.HasField("error") else None,
    )


def log_line_of(line: job_pb2.LogLine) -> LogLine:
    """The message as a :class:`LogLine`."""
    return LogLine(
        sequence=line.sequence,
        attempt=line.attempt,
        level=LogLevel.of(job_pb2.LogLevel, line.level),
        message=line.message,
        time=_time(line, "time"),
    )


_Timed = job_pb2.Job | job_pb2.Progress | job_pb2.StateChange | job_pb2.Attempt | job_pb2.LogLine


def _time(message: _Timed, name: str) -> datetime | None:
    present = message.HasField(name)  # type: ignore[arg-type]
    return to_datetime(getattr(message, name)) if present else None


def _content(job: job_pb2.Job, name: Literal["result", "checkpoint"]) -> Any:
    return decode_payload(getattr(job, name)) if job.HasField(name) else None
