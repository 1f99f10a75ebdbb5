"""In a handler's own process: what the handler says goes to the runner, by one pipe."""

from __future__ import annotations

import os
import threading
import time
from concurrent.futures import Future
from multiprocessing.connection import Connection

from jobmesh.errors import LeaseLost
from jobmesh.outcomes import TooManySteps
from jobmesh.v1.job_pb2 import Payload
from jobmesh.v1.runner_service_pb2 import Report
from jobmesh_runner import worker_messages as m
from jobmesh_runner.attempt import Attempt
from jobmesh_runner.messages import Line
from jobmesh_runner.outbox import PendingCheckpoint
from jobmesh_runner.pending_steps import PendingStep

PACE_SECONDS = 0.05
LIFE_SECONDS = 0.25


class WorkerPort:
    """A `HandlerPort` over a pipe. The runner always reads, so that a write waits for nobody.

    Progress and signs of life are thinned out; :meth:`flush` sends what was held back.
    """

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._writing = threading.RLock()
        self._run = 0  # changed and looked at only while writing
        self._checkpoints: dict[int, Future[None]] = {}
        self._steps: dict[int, PendingStep] = {}
        self._held_back: Attempt | None = None
        self._progressed_at = 0.0
        self._lived_at = 0.0

    def begin(self, run: int) -> None:
        """What is said from now on is this run's."""
        with self._writing:
            self._run = run
            self._held_back = None
            self._progressed_at = self._lived_at = 0.0

    def end(self, report: Report | None) -> None:
        """The handler has ended; nothing it says from now on is heard."""
        self.flush()
        with self._writing:
            self.send(m.Ended(None if report is None else report.SerializeToString()))
            self._run = 0
        self._checkpoints.clear()
        self._steps.clear()

    def send(self, message: m.FromWorker) -> None:
        """Tell the runner. Without one this process is of no use."""
        data = m.encode(message)
        with self._writing:
            try:
                self._connection.send_bytes(data)
            except OSError:
                os._exit(1)

    def _say(self, message: m.FromWorker) -> None:
        """Tell the runner, unless the handler's run is over."""
        with self._writing:
            if self._run:
                self.send(message)

    def progress(self, attempt: Attempt) -> None:
        """It has something new in ``latest``."""
        self._held_back = attempt
        if time.monotonic() - self._progressed_at >= PACE_SECONDS:
            self.flush()

    def flush(self) -> None:
        """Send the progress that was held back."""
        attempt, self._held_back = self._held_back, None
        if attempt is None:
            return
        attempt.progress_waits = False  # first: what comes from now on is news again
        self._progressed_at = time.monotonic()
        if attempt.latest is not None:
            self._say(m.Progressed(*attempt.latest))

    def line(self, attempt: Attempt, line: Line) -> None:
        """It logged."""
        self._say(m.Logged(line.level, line.message, line.time_ns))

    def heartbeat(self, attempt: Attempt) -> None:
        """It lives."""
        if attempt.said_at - self._lived_at >= LIFE_SECONDS:
            self._lived_at = attempt.said_at
            self._say(m.Lives())

    def checkpoint(self, checkpoint: PendingCheckpoint) -> None:
        """It wants a checkpoint stored."""
        self._checkpoints[checkpoint.sequence] = checkpoint.done
        self._say(m.CheckpointAsked(checkpoint.sequence, checkpoint.payload.data))

    def step(self, step: PendingStep) -> None:
        """It asks what a step came to, or wants that stored."""
        self._steps[step.sequence] = step
        result = None if step.result is None else step.result.data
        self._say(m.StepAsked(step.sequence, step.key, result))

    # What the runner answers.

    def checkpoint_answered(self, answer: m.CheckpointAnswer, attempt: Attempt) -> None:
        """It is durable, or the lease is lost."""
        done = self._checkpoints.pop(answer.sequence, None)
        if done is None or not done.set_running_or_notify_cancel():
            return
        if answer.is_lost:
            done.set_exception(LeaseLost(*attempt.key))
        else:
            done.set_result(None)

    def step_answered(self, answer: m.StepAnswer, attempt: Attempt) -> None:
        """What is stored is known."""
        step = self._steps.pop(answer.sequence, None)
        if step is None or not step.done.set_running_or_notify_cancel():
            return
        if answer.is_lost:
            step.done.set_exception(LeaseLost(*attempt.key))
        elif answer.is_refused:
            step.done.set_exception(TooManySteps(step.key))
        else:
            step.done.set_result(None if answer.result is None else Payload(data=answer.result))
