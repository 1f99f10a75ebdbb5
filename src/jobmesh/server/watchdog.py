"""Watches the event loop: a call that blocks it delays every job, lease and probe."""

from __future__ import annotations

import asyncio
import logging
import sys
import threading
import time
import traceback

from jobmesh.server import metrics
from jobmesh.server.tasks import TaskOwner

log = logging.getLogger(__name__)

_lag = metrics.gauge("jobmesh_loop_lag_seconds", "How late the event loop woke up last.")
_blocked = metrics.counter("jobmesh_loop_blocked_total", "Times the event loop was blocked.")


class Watchdog:
    """Measures how late the loop wakes up, every ``interval_seconds``.

    A lag above ``threshold_seconds`` is counted and logged, with the stack that the loop's thread
    had while it was blocked: a thread looks from outside, since the loop itself cannot.
    """

    def __init__(self, *, interval_seconds: float = 0.1, threshold_seconds: float = 0.25) -> None:
        self.longest = 0.0  # seconds
        self.blocked = 0
        self._interval = interval_seconds
        self._threshold = threshold_seconds
        self._owner = TaskOwner()
        self._beat = 0.0
        self._stack = ""
        self._ended = threading.Event()
        self._thread: threading.Thread | None = None

    async def start(self) -> None:
        """Begin to watch the running loop."""
        if self._thread is not None:
            return
        self._beat = time.monotonic()
        self._owner.spawn("watchdog", self._run())
        self._thread = threading.Thread(
            target=self._look, args=(threading.get_ident(),), name="watchdog", daemon=True
        )
        self._thread.start()

    async def stop(self) -> None:
        """End; the thread leaves within one interval."""
        self._ended.set()
        await self._owner.stop()
        if self._thread is not None:
            await asyncio.to_thread(self._thread.join)

    async def _run(self) -> None:
        while True:
            before = time.monotonic()
            self._beat = before
            await asyncio.sleep(self._interval)
            self._note(time.monotonic() - before - self._interval)

    def _note(self, lag: float) -> None:
        _lag.set(lag)
        self.longest = max(self.longest, lag)
        stack, self._stack = self._stack, ""
        if lag <= self._threshold:
            return
        self.blocked += 1
        _blocked.inc()
        where = f", in:\n{stack}" if stack else ""
        log.warning("the event loop was blocked for %.0f ms%s", lag * 1000, where)

    def _look(self, loop_thread: int) -> None:
        """Runs in a thread: keep the loop's stack once its beat is late."""
        while not self._ended.wait(self._threshold / 2):
            if time.monotonic() - self._beat - self._interval < self._threshold * 0.75:
                continue
            frame = sys._current_frames().get(loop_thread)
            if frame is not None and not self._stack:
                self._stack = "".join(traceback.format_stack(frame)[-6:]).rstrip()
