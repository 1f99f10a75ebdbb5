"""Slots and handlers: begins what waits as long as slots are free. Of the main thread."""

from __future__ import annotations

import asyncio
import contextvars
import logging
import time
from collections import deque
from collections.abc import Callable

from jobmesh.v1.runner_service_pb2 import Report
from jobmesh_runner.attempt import Attempt
from jobmesh_runner.handoff import Handoff
from jobmesh_runner.invocation import Invocation
from jobmesh_runner.port import MeshPort
from jobmesh_runner.process_run import ProcessRuns
from jobmesh_runner.threads import Threads

log = logging.getLogger(__name__)


class Executor:
    """Runs ``async`` handlers as tasks of the users' loop, plain ones in threads, and those that
    are to have one in processes.

    :param waiting: claims in the order to begin them; the mesh thread appends, and may withdraw.
    :param is_congested: whether so many results wait for their answer that none should be added.
    """

    def __init__(
        self,
        slots: int,
        waiting: deque[Attempt],
        mesh: MeshPort,
        invocation: Invocation,
        processes: ProcessRuns,
        is_congested: Callable[[], bool],
    ) -> None:
        self.slots = slots
        self.inbox = Handoff()
        self._free = slots
        self._waiting = waiting
        self._mesh = mesh
        self._invocation = invocation
        self._processes = processes
        self._is_congested = is_congested
        self._threads = Threads("handler")
        self._tasks: set[asyncio.Task[None]] = set()
        self._left_behind: set[Attempt] = set()
        self._loop: asyncio.AbstractEventLoop
        self._context: contextvars.Context

    @property
    def used(self) -> int:
        """Slots in use."""
        return self.slots - self._free

    @property
    def left_behind(self) -> int:
        """Handlers that run on although nobody waits for them."""
        return len(self._left_behind)

    def start(self) -> None:
        """Work on the running loop."""
        self._loop = asyncio.get_running_loop()
        # A job begins when another ends: it must not inherit what that one's context holds.
        self._context = contextvars.copy_context()
        self.inbox.bind(self._loop)

    def fill(self) -> None:
        """Begin what waits, as far as there are slots."""
        while self._free > 0 and self._waiting and not self._is_congested():
            try:
                attempt = self._waiting.popleft()
            except IndexError:  # the mesh thread withdrew the last one
                return
            self._begin(attempt)

    def _begin(self, attempt: Attempt) -> None:
        self._free -= 1
        attempt.holds_slot = True
        assert attempt.task is not None
        if attempt.in_process:
            self._threads.submit(lambda: self._run_in_process(attempt))
            return
        attempt.began_at = time.perf_counter()
        self._mesh.started(attempt)
        context = self._context.copy()
        if attempt.task.is_async:
            task = self._loop.create_task(self._run(attempt), context=context)
            attempt.handle = task
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        else:
            self._threads.submit(lambda: context.run(self._run_in_thread, attempt))

    async def _run(self, attempt: Attempt) -> None:
        report = await self._invocation.run_async(attempt)
        attempt.handle = None  # what is done cannot be cancelled
        attempt.context = None  # which holds the attempt: no work for the garbage collector
        self._end(attempt, report)

    def _run_in_thread(self, attempt: Attempt) -> None:
        report = self._invocation.run_sync(attempt)
        attempt.context = None
        # Not by way of the users' loop, which another handler may be blocking.
        self._mesh.ended(attempt, report)
        self.inbox.call(self._release, attempt)

    def _run_in_process(self, attempt: Attempt) -> None:
        report = self._processes.run(attempt)
        self._mesh.ended(attempt, report)
        self.inbox.call(self._release, attempt)

    def _end(self, attempt: Attempt, report: Report | None) -> None:
        self._mesh.ended(attempt, report)
        self._release(attempt)

    def _release(self, attempt: Attempt) -> None:
        """Its handler has ended: its slot is free, unless it was given away already."""
        if attempt in self._left_behind:
            self._left_behind.discard(attempt)
            log.info("a handler left behind has ended", extra={"job_id": attempt.job_id})
        self._free_slot(attempt)

    def _free_slot(self, attempt: Attempt) -> None:
        if attempt.holds_slot:
            attempt.holds_slot = False
            self._free += 1
            self.fill()

    def stop(self, attempt: Attempt) -> None:
        """Tell an ``async`` handler that its ``stop`` was set; threads have their flag."""
        handle = attempt.handle
        if handle is None or not attempt.entered or attempt.stop is None:
            return  # one that has not entered looks at `stop` itself
        if attempt.context is not None:
            attempt.context.cancelled.reason = attempt.stop.reason
            attempt.context.cancelled.set()
        handle.cancel(attempt.stop.reason)

    def abandon(self, attempt: Attempt) -> None:
        """Let others have the slot of a handler that does not stop.

        Not without end: once as many were left behind as there are slots, theirs stay taken.
        """
        if not attempt.holds_slot:
            return
        if len(self._left_behind) >= self.slots:
            log.critical("too many handlers do not stop: their slots are not given to others")
            return
        self._left_behind.add(attempt)
        self._free_slot(attempt)

    async def close(self, timeout: float) -> bool:
        """End what is left; False if a handler would not end in so many seconds."""
        self._free = -self.slots  # nothing is begun any more
        tasks = set(self._tasks)
        for task in tasks:
            task.cancel("the runner is stopping")
        if tasks:
            await asyncio.wait(tasks, timeout=timeout)
        self._threads.stop()
        return not self._tasks and not self._left_behind
