"""A process that runs handlers for a runner, one at a time.

Forked from a process that knows nothing of the runner, which has threads and a channel, nor of the
app, which each loads afresh: ``python -m jobmesh_runner.worker``. The handler gets the main
thread: an ``async`` one on a loop that is kept, a plain one directly. A second thread reads what
the runner says; when the runner is gone, the process ends, whatever its handler is doing.
"""

from __future__ import annotations

import asyncio
import contextvars
import faulthandler
import logging
import os
import queue
import signal
import sys
import threading
import time
from collections.abc import Mapping
from multiprocessing.connection import Connection
from typing import Any

import msgspec
import uvloop

from jobmesh.server import logs, tracing
from jobmesh.server.fork_server import serve
from jobmesh.task import Task
from jobmesh.v1.runner_service_pb2 import Assignment, Report
from jobmesh_runner import worker_messages as m
from jobmesh_runner.app_loading import load_tasks
from jobmesh_runner.attempt import Attempt, Stop, StopKind
from jobmesh_runner.invocation import Invocation
from jobmesh_runner.worker_port import PACE_SECONDS, WorkerPort

log = logging.getLogger(__name__)

NAME = "runner"


class Worker:
    """See the module."""

    def __init__(self, tasks: Mapping[str, Task[Any, Any]], connection: Connection) -> None:
        self._tasks = tasks
        self._connection = connection
        self._port = WorkerPort(connection)
        self._runs: queue.SimpleQueue[tuple[m.Run, Attempt] | None] = queue.SimpleQueue()
        self._loop = uvloop.new_event_loop()
        self._lock = threading.Lock()
        self._number = 0
        self._attempt: Attempt | None = None
        self._busy = False  # a run has come and has not ended

    def run(self) -> None:
        """Run what comes until the runner hangs up."""
        threading.Thread(target=self._read, name="runner", daemon=True).start()
        self._port.send(m.Ready())
        while (begun := self._runs.get()) is not None:
            self._execute(*begun)

    def _execute(self, run: m.Run, attempt: Attempt) -> None:
        attempt.began_at = time.perf_counter()
        self._port.begin(run.run)
        invocation = Invocation(self._port, run.limit_bytes)
        assert attempt.task is not None
        if attempt.task.is_async:
            report = self._run_on_loop(invocation, attempt)
        else:
            report = contextvars.copy_context().run(invocation.run_sync, attempt)
        with self._lock:
            self._attempt = None
        attempt.context = None
        self._busy = False  # first: the next run may come as soon as this one has ended
        self._port.end(report)

    def _run_on_loop(self, invocation: Invocation, attempt: Attempt) -> Report | None:
        task = self._loop.create_task(
            invocation.run_async(attempt), context=contextvars.copy_context()
        )
        attempt.handle = task  # type: ignore[assignment]
        while not task.done():
            try:
                self._loop.run_until_complete(task)
            except (SystemExit, KeyboardInterrupt) as error:
                # Of a task that the handler started: asyncio lets these two through.
                log.error("a handler's task raised %r: ignored", error)
        return task.result()

    # Of the other thread.

    def _read(self) -> None:
        try:
            while True:
                if self._busy and not self._connection.poll(PACE_SECONDS):
                    self._port.flush()
                    continue
                self._handle(m.decode_to_worker(self._connection.recv_bytes(m.MOST_BYTES)))
        except (EOFError, OSError):
            self._runs.put(None)
        except Exception:
            log.exception("what the runner said cannot be acted on")  # other code, other tasks
            os._exit(1)
        if self._busy:
            os._exit(1)  # its runner is gone: whatever it does would not be recorded

    def _handle(self, message: m.ToWorker) -> None:
        if isinstance(message, m.Run):
            self._begin(message)
            return
        with self._lock:
            attempt = self._attempt if message.run == self._number else None
        if attempt is None:
            return
        if isinstance(message, m.StopHandler):
            self._stop(attempt, Stop(StopKind[message.kind], message.detail))
        elif isinstance(message, m.CheckpointAnswer):
            self._port.checkpoint_answered(message, attempt)
        else:
            self._port.step_answered(message, attempt)

    def _begin(self, run: m.Run) -> None:
        """Known from here on: a stop may come before the handler is called."""
        assignment = Assignment.FromString(run.assignment)
        attempt = Attempt(assignment, self._tasks[assignment.type])
        with self._lock:
            self._number, self._attempt = run.run, attempt
        self._busy = True
        self._runs.put((run, attempt))

    def _stop(self, attempt: Attempt, stop: Stop) -> None:
        attempt.stop = stop
        if attempt.task is not None and attempt.task.is_async:
            self._loop.call_soon_threadsafe(_stop_on_loop, attempt, stop)
        elif attempt.context is not None:
            attempt.context.cancelled.reason = stop.reason
            attempt.context.cancelled.set()


def _stop_on_loop(attempt: Attempt, stop: Stop) -> None:
    if attempt.handle is None or not attempt.entered:
        return  # it looks at `stop` itself
    if attempt.context is not None:
        attempt.context.cancelled.reason = stop.reason
        attempt.context.cancelled.set()
    attempt.handle.cancel(stop.reason)


def become(payload: bytes, fds: list[int]) -> None:
    """Of a process that :mod:`jobmesh_runner.worker_process` asked for: the apps, pipe, faults."""
    apps = msgspec.msgpack.decode(payload, type=list[str])
    pipe, faults = fds
    # Its runner decides when it ends, also if somebody signals all that belongs to it. Not ignored,
    # which what handlers start would inherit.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: None)
    faulthandler.enable(faults)
    logs.configure(NAME)
    tracing.configure(NAME)
    asyncio.set_event_loop(None)
    Worker(load_tasks(apps), Connection(pipe)).run()
    tracing.shutdown()
    logging.shutdown()
    os._exit(0)  # handlers may have left threads behind


if __name__ == "__main__":
    tracing.load()
    serve(int(sys.argv[1]), become)
