"""The processes that a runner runs handlers in: made as they are needed, and kept for a while."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Sequence

from jobmesh.server.forked import ForkServer
from jobmesh_runner.worker_messages import Ready
from jobmesh_runner.worker_process import READY_SECONDS, ProcessDied, WorkerProcess

log = logging.getLogger(__name__)

IDLE_SECONDS = 60.0
STARTS_AT_ONCE = 4
"""More would only get into each other's way."""


class NoProcess(Exception):
    """A process could not be started."""


class Workers:
    """As many as there are runs at a time. Of any thread."""

    def __init__(self, apps: Sequence[str]) -> None:
        self._apps = tuple(apps)
        self._forks = ForkServer("jobmesh_runner.worker")
        self._lock = threading.Lock()
        self._starting = threading.Semaphore(STARTS_AT_ONCE)
        self._idle: list[tuple[float, WorkerProcess]] = []  # since when; the youngest last
        self._all: set[WorkerProcess] = set()
        self._closed = False

    def __len__(self) -> int:
        return len(self._all)

    def acquire(self) -> WorkerProcess:
        """A process that nobody uses; blocks while one is started.

        :raises NoProcess: it cannot be.
        """
        while True:
            with self._lock:
                if self._closed:
                    raise NoProcess("the runner is stopping")
                worker = self._idle.pop()[1] if self._idle else None
            if worker is None:
                return self._start()
            if worker.is_alive():
                return worker
            self.discard(worker)

    def release(self, worker: WorkerProcess) -> None:
        """Its run is over: others may have it."""
        with self._lock:
            if not self._closed:
                self._idle.append((time.monotonic(), worker))
                return
        self.discard(worker)

    def discard(self, worker: WorkerProcess) -> None:
        """It has died, or is not wanted any more."""
        worker.close()
        with self._lock:
            self._all.discard(worker)

    def end_idle(self) -> bool:
        """End those that nobody has used for a minute; whether others wait for that."""
        horizon = time.monotonic() - IDLE_SECONDS
        with self._lock:
            old = [worker for since, worker in self._idle if since <= horizon]
            self._idle = [(since, worker) for since, worker in self._idle if since > horizon]
            left = bool(self._idle)
        for worker in old:
            self.discard(worker)
        return left

    def close(self) -> None:
        """End all, those that still run a handler as well."""
        with self._lock:
            self._closed = True
            idle, self._idle = [worker for _, worker in self._idle], []
            busy = self._all.difference(idle)
        for worker in busy:
            worker.kill()
        for worker in idle:
            worker.hang_up()
        for worker in idle:
            self.discard(worker)
        self._forks.close()

    def _start(self) -> WorkerProcess:
        with self._starting:
            try:
                worker = WorkerProcess(self._forks, self._apps)
            except OSError as error:
                raise NoProcess(str(error)) from error
            with self._lock:
                self._all.add(worker)
            try:
                first = worker.receive(READY_SECONDS)
            except (ProcessDied, TimeoutError) as error:
                worker.kill()
                self.discard(worker)
                raise NoProcess(f"it does not start: {error}") from error
        assert isinstance(first, Ready)
        return worker
