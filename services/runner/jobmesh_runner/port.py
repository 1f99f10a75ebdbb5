"""The calls that the two threads make to each other."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

from jobmesh.v1.runner_service_pb2 import Report
from jobmesh_runner.attempt import Attempt
from jobmesh_runner.handoff import Handoff

if TYPE_CHECKING:
    from jobmesh_runner.executor import Executor
    from jobmesh_runner.messages import Line
    from jobmesh_runner.outbox import PendingCheckpoint
    from jobmesh_runner.pending_steps import PendingStep
    from jobmesh_runner.supervision import Supervision


class HandlerPort(Protocol):
    """What a handler's line tells; from any thread, never blocking."""

    def progress(self, attempt: Attempt) -> None:
        """It has something new in ``latest``."""

    def line(self, attempt: Attempt, line: Line) -> None:
        """It logged."""

    def checkpoint(self, checkpoint: PendingCheckpoint) -> None:
        """It wants a checkpoint stored."""

    def step(self, step: PendingStep) -> None:
        """It asks what a step came to, or wants that stored."""

    def heartbeat(self, attempt: Attempt) -> None:
        """It lives, as ``said_at`` tells."""


class MeshPort:
    """What handlers and the executor tell the mesh thread; from any thread, never blocking."""

    def __init__(self, handoff: Handoff, supervision: Supervision) -> None:
        self._call = handoff.call
        self._supervision = supervision

    def started(self, attempt: Attempt) -> None:
        """Its handler begins."""
        self._call(self._supervision.started, attempt)

    def ended(self, attempt: Attempt, report: Report | None) -> None:
        """Its handler has ended; without a report if its lease was lost."""
        self._call(self._supervision.ended, attempt, report)

    def progress(self, attempt: Attempt) -> None:
        """It has something new in ``latest``."""
        self._call(self._supervision.progressed, attempt)

    def line(self, attempt: Attempt, line: Line) -> None:
        """It logged."""
        self._call(self._supervision.logged, attempt, line)

    def checkpoint(self, checkpoint: PendingCheckpoint) -> None:
        """It wants a checkpoint stored."""
        self._call(self._supervision.checkpointed, checkpoint)

    def step(self, step: PendingStep) -> None:
        """It asks what a step came to, or wants that stored."""
        self._call(self._supervision.stepped, step)

    def heartbeat(self, attempt: Attempt) -> None:
        """It lives; nobody needs to be woken for it."""


class ExecutorPort:
    """What the mesh thread tells the executor on the main thread."""

    def __init__(self, handoff: Handoff, executor: Executor) -> None:
        self._call = handoff.call
        self._executor = executor

    def answer(self, function: Callable[[int], None], number: int) -> None:
        """Call it there, to see whether the loop turns."""
        self._call(function, number)

    def fill(self) -> None:
        """Claims wait, or may be begun again."""
        self._call(self._executor.fill)

    def stop(self, attempt: Attempt) -> None:
        """Its ``stop`` was set: tell its handler."""
        self._call(self._executor.stop, attempt)

    def abandon(self, attempt: Attempt) -> None:
        """Its handler did not stop in time: give its slot to others."""
        self._call(self._executor.abandon, attempt)
