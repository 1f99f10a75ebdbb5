"""A handler's line to the mesh: progress, log and checkpoints, from whatever thread it runs in."""

from __future__ import annotations

import threading
import time
from concurrent.futures import CancelledError, Future

from jobmesh import codec
from jobmesh.v1.job_pb2 import Payload
from jobmesh_runner.attempt import Attempt, LatestProgress
from jobmesh_runner.log_budget import LINE_BYTES, LogBudget
from jobmesh_runner.messages import Line
from jobmesh_runner.outbox import PendingCheckpoint
from jobmesh_runner.pending_steps import PendingStep
from jobmesh_runner.port import HandlerPort
from jobmesh_runner.wire_text import clean, cut_bytes

MOST_UNITS = (1 << 63) - 1  # what the wire holds


class HandlerLine:
    """What :class:`jobmesh.context.Line` asks for, of one attempt. Nothing here blocks."""

    def __init__(self, attempt: Attempt, mesh: HandlerPort, limit_bytes: int) -> None:
        self._attempt = attempt
        self._mesh = mesh
        self._limit = limit_bytes
        self._lock = threading.Lock()
        self._budget = LogBudget()
        self._checkpoints = 0
        self._steps = 0

    def progress(self, fraction: float, message: str, current: int, total: int) -> None:
        """Overwrite the latest; tell the mesh thread, unless it has yet to fetch the last one."""
        attempt = self._attempt
        self.heartbeat()
        attempt.latest = LatestProgress(
            fraction,
            clean(message),
            min(current, MOST_UNITS),
            min(total, MOST_UNITS),
            time.time_ns(),
        )
        if not attempt.progress_waits:
            attempt.progress_waits = True
            self._mesh.progress(attempt)

    def log(self, level: int, message: str) -> None:
        """Send a line, as far as the attempt's budget goes."""
        self.heartbeat()
        text = cut_bytes(message, LINE_BYTES)
        with self._lock:
            admitted = self._budget.admit(text)
            if admitted is not None:
                # Inside the lock, so that nothing follows the marker.
                self._mesh.line(self._attempt, Line(level, admitted, time.time_ns()))

    def checkpoint(self, value: object) -> Future[None]:
        """Send a checkpoint; see :meth:`jobmesh.context.Line.checkpoint`."""
        self.heartbeat()
        data = codec.encode_within(value, "checkpoint", self._limit)
        payload = Payload(data=data, content_type=codec.CONTENT_TYPE)
        done: Future[None] = Future()
        with self._lock:
            self._checkpoints += 1
            self._mesh.checkpoint(
                PendingCheckpoint(self._attempt, self._checkpoints, payload, done)
            )
        return done

    def find_step(self, key: str) -> Future[bytes | None]:
        """Ask what is stored; see :meth:`jobmesh.steps.StepLine.find_step`."""
        return _data_of(self._step(key, None))

    def store_step(self, key: str, data: bytes) -> Future[bytes]:
        """Have it stored; see :meth:`jobmesh.steps.StepLine.store_step`."""
        result = Payload(data=data, content_type=codec.CONTENT_TYPE)
        return _data_of(self._step(key, result))  # type: ignore[return-value]  # never None

    def _step(self, key: str, result: Payload | None) -> Future[Payload | None]:
        self.heartbeat()
        done: Future[Payload | None] = Future()
        with self._lock:
            self._steps += 1
            self._mesh.step(PendingStep(self._attempt, self._steps, clean(key), result, done))
        return done

    def heartbeat(self) -> None:
        """Note that the handler lives; nobody is told but whoever looks for it."""
        self._attempt.said_at = time.monotonic()
        self._mesh.heartbeat(self._attempt)


def _data_of(done: Future[Payload | None]) -> Future[bytes | None]:
    """The same, of its content."""
    data: Future[bytes | None] = Future()

    def pass_on(done: Future[Payload | None]) -> None:
        if not data.set_running_or_notify_cancel():
            return
        if done.cancelled():
            data.set_exception(CancelledError())
        elif (error := done.exception()) is not None:
            data.set_exception(error)
        else:
            result = done.result()
            data.set_result(None if result is None else result.data)

    done.add_done_callback(pass_on)
    return data
