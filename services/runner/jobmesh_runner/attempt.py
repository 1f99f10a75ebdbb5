"""One claim of a job in this runner, from its assignment to the answer to its report."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import Enum
from typing import Any, NamedTuple, Protocol

from jobmesh.context import JobContext, SyncJobContext
from jobmesh.task import Task
from jobmesh.v1.runner_service_pb2 import Assignment, Lease, Report


class HandlerProcess(Protocol):
    """A process that a handler runs in. Callable from any thread, and never blocking."""

    def stop(self, stop: Stop) -> None:
        """Tell the handler to stop."""

    def kill(self) -> None:
        """End it."""


LeaseKey = tuple[str, int]
"""Job id and attempt."""


class StopKind(Enum):
    """Why a handler was told to stop."""

    CANCELLED = "the job was cancelled"
    TIMED_OUT = "it ran longer than its timeout"
    DEADLINE = "the job's deadline has passed"
    SILENT = "it has not reported for too long"
    LOST = "the job is no longer this attempt's"
    INTERRUPTED = "the runner is stopping"

    @property
    def is_timeout(self) -> bool:
        """Whether the attempt is reported as timed out."""
        return self in (StopKind.TIMED_OUT, StopKind.DEADLINE, StopKind.SILENT)


@dataclass(frozen=True)
class Stop:
    """That a handler was told to stop, and why."""

    kind: StopKind
    detail: str = ""

    @property
    def reason(self) -> str:
        """For the handler: ``job.cancelled.reason``."""
        return f"{self.kind.value}: {self.detail}" if self.detail else self.kind.value


class LatestProgress(NamedTuple):
    """What a handler said last about how far it is."""

    fraction: float
    message: str
    current: int
    total: int
    time_ns: int


class Attempt:
    """One claim. Each field has one thread that writes it.

    Of the mesh thread: ``started``, ``report``, ``report_bytes``, ``stop``, ``timer``,
    ``progress_due``, ``lines_dropped``, ``taken_at``. Of the main thread: ``context``, ``handle``,
    ``entered``, ``began_at``, ``holds_slot``. Of the handler's: ``latest``, ``progress_waits``
    (lowered by the mesh thread), ``said_at`` (and of the mesh thread). Of the thread that minds the
    handler's process, if it has one: ``process``.
    """

    __slots__ = (
        "assignment",
        "began_at",
        "context",
        "entered",
        "handle",
        "holds_slot",
        "key",
        "latest",
        "lines_dropped",
        "process",
        "progress_due",
        "progress_waits",
        "report",
        "report_bytes",
        "said_at",
        "started",
        "stop",
        "taken_at",
        "task",
        "timer",
    )

    def __init__(self, assignment: Assignment, task: Task[..., Any] | None) -> None:
        self.assignment = assignment
        self.key: LeaseKey = (assignment.job_id, assignment.attempt)
        self.task = task
        self.started = False
        self.report: Report | None = None
        self.report_bytes = 0
        self.stop: Stop | None = None
        self.timer: asyncio.TimerHandle | None = None
        self.progress_due = 0.0
        self.lines_dropped = 0
        self.context: JobContext | SyncJobContext | None = None
        self.handle: asyncio.Task[None] | None = None
        self.entered = False
        self.holds_slot = False
        self.began_at = 0.0
        self.taken_at = 0.0
        self.latest: LatestProgress | None = None
        self.progress_waits = False
        self.said_at = 0.0
        self.process: HandlerProcess | None = None

    def __repr__(self) -> str:
        return f"<Attempt {self.key[1]} of {self.key[0]}>"

    @property
    def job_id(self) -> str:
        """The job."""
        return self.key[0]

    @property
    def lease(self) -> Lease:
        """The claim as it travels."""
        return Lease(job_id=self.key[0], attempt=self.key[1])

    def seconds_run(self) -> float:
        """How long its handler has run so far; 0 if it has not begun."""
        return time.perf_counter() - self.began_at if self.began_at else 0.0

    @property
    def in_process(self) -> bool:
        """Whether it is run in a process of its own: as its task wants, or as a suspect."""
        return self.assignment.suspect or (self.task is not None and self.task.process)

    @property
    def on_loop(self) -> bool:
        """Whether its handler runs on the users' loop, where all others would wait for it."""
        return not self.in_process and self.task is not None and self.task.is_async

    @property
    def timeout_seconds(self) -> float | None:
        """How long it may run."""
        return _seconds(self.assignment, "timeout")

    @property
    def heartbeat_timeout(self) -> float | None:
        """How long its handler may be silent."""
        return _seconds(self.assignment, "heartbeat_timeout")

    @property
    def time_left(self) -> float | None:
        """How long the job had until its deadline, when it was taken."""
        return _seconds(self.assignment, "time_left")


def _seconds(assignment: Assignment, field: str) -> float | None:
    if not assignment.HasField(field):  # type: ignore[arg-type]
        return None
    duration = getattr(assignment, field)
    return float(duration.seconds + duration.nanos / 1e9)


class AttemptInfo:
    """What a handler's context tells of its attempt; read from the assignment when asked for."""

    __slots__ = ("_assignment", "_begin")

    def __init__(self, assignment: Assignment) -> None:
        self._assignment = assignment
        self._begin = datetime.now(UTC)

    @property
    def job_id(self) -> str:
        """The job."""
        return self._assignment.job_id

    @property
    def type(self) -> str:
        """The task's name."""
        return self._assignment.type

    @property
    def queue(self) -> str:
        """Its queue."""
        return self._assignment.queue

    @property
    def attempt(self) -> int:
        """The fencing token."""
        return self._assignment.attempt

    @property
    def failures(self) -> int:
        """Attempts that failed before."""
        return self._assignment.failures

    @property
    def max_attempts(self) -> int:
        """Attempts that may fail in all; 0 if unknown."""
        return self._assignment.max_attempts

    @property
    def labels(self) -> Mapping[str, str]:
        """A copy of its labels."""
        return dict(self._assignment.labels)

    @property
    def create_time(self) -> datetime | None:
        """When it was submitted."""
        if not self._assignment.HasField("create_time"):
            return None
        return self._assignment.create_time.ToDatetime(UTC)

    @property
    def deadline(self) -> datetime | None:
        """The job's deadline or the end of the attempt's timeout, whichever comes first."""
        ends = []
        if self._assignment.HasField("deadline"):
            ends.append(self._assignment.deadline.ToDatetime(UTC))
        if self._assignment.HasField("timeout"):
            timeout = self._assignment.timeout
            ends.append(
                self._begin + timedelta(seconds=timeout.seconds, microseconds=timeout.nanos // 1000)
            )
        return min(ends, default=None)

    @property
    def steps(self) -> int:
        """Results of steps that earlier attempts stored."""
        return self._assignment.steps

    @property
    def checkpoint(self) -> bytes | None:
        """JSON that an earlier attempt stored last."""
        if not self._assignment.HasField("checkpoint"):
            return None
        return self._assignment.checkpoint.data
