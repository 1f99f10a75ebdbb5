"""Owners of background tasks: nothing runs that nobody awaits."""

from __future__ import annotations

import asyncio
import contextvars
import logging
import random
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, TypeVar

T = TypeVar("T")

log = logging.getLogger(__name__)

OnFailure = Callable[[str, BaseException], None]

# Set by the running Service: the failure of a task without an owner's own answer ends the process.
_on_failure: contextvars.ContextVar[OnFailure | None] = contextvars.ContextVar(
    "jobmesh_on_task_failure", default=None
)


def set_failure_handler(handler: OnFailure | None) -> None:
    """Whom task owners made in this context tell of failures."""
    _on_failure.set(handler)


class TaskOwner:
    """Runs tasks and awaits them at :meth:`stop`.

    A task that raises is logged and told to ``on_failure``: by default the running service, which
    then stops and exits with an error, since a mesh with a dead part inside is worse than a
    restart.
    """

    def __init__(self, on_failure: OnFailure | None = None) -> None:
        # Of where the owner was made, or else of where it is used first: a part may be made
        # before its service runs.
        self._on_failure = on_failure or _on_failure.get()
        self._tasks: set[asyncio.Task[Any]] = set()
        self._stopping = False

    def __len__(self) -> int:
        return len(self._tasks)

    def spawn(self, name: str, coro: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        """Start a task that this owner awaits and, at :meth:`stop`, cancels."""
        if self._stopping:
            coro.close()
            raise RuntimeError(f"cannot start {name}: its owner is stopping")
        if self._on_failure is None:
            self._on_failure = _on_failure.get()
        task = asyncio.get_running_loop().create_task(coro, name=name)
        self._tasks.add(task)
        task.add_done_callback(self._done)
        return task

    async def stop(self) -> None:
        """Cancel all tasks and wait until they have ended; may be called again."""
        self._stopping = True
        while self._tasks:
            for task in self._tasks:
                task.cancel()
            await asyncio.wait(set(self._tasks))
            # Done callbacks, which log failures, run on the loop's next turn.
            await asyncio.sleep(0)

    def _done(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        if task.cancelled() or (error := task.exception()) is None:
            return
        log.error("task %s failed", task.get_name(), exc_info=error)
        if self._on_failure is not None and not self._stopping:
            self._on_failure(task.get_name(), error)


class Periodic:
    """Calls ``fn`` again and again, ``interval`` seconds after the last call ended.

    It never overlaps with itself. A failure is logged and the next call waits longer, doubling up
    to ``max_backoff`` seconds, until one succeeds. :meth:`wake` makes the next call happen now.
    """

    def __init__(
        self,
        name: str,
        interval: float,
        fn: Callable[[], Awaitable[object]],
        *,
        timeout: float | None = None,
        max_backoff: float = 30.0,
        jitter: float = 0.0,
        delay_first: bool = False,
    ) -> None:
        self.name = name
        self.failures = 0  # in a row
        self._interval = interval
        self._fn = fn
        self._timeout = timeout
        self._max_backoff = max_backoff
        self._jitter = jitter
        self._delay_first = delay_first
        self._owner = TaskOwner()
        self._wake = asyncio.Event()
        self._started = False

    async def start(self) -> None:
        """Begin; the first call is made at once unless ``delay_first``."""
        if not self._started:
            self._started = True
            self._owner.spawn(self.name, self._run())

    async def stop(self) -> None:
        """End, cancelling a call that is running."""
        await self._owner.stop()

    def wake(self) -> None:
        """Do not wait for the interval to end."""
        self._wake.set()

    async def _run(self) -> None:
        if self._delay_first:
            await self._pause(self._interval)
        while True:
            self._wake.clear()
            await self._call()
            await self._pause(next_pause(self._interval, self.failures, self._max_backoff))

    async def _call(self) -> None:
        try:
            async with asyncio.timeout(self._timeout):
                await self._fn()
        except Exception as error:
            self.failures += 1
            # The whole trace once; a dependency that is down for an hour is not 120 traces.
            trace = error if self.failures == 1 else None
            log.warning(
                "%s failed %d time(s): %s: %s",
                self.name,
                self.failures,
                type(error).__name__,
                error,
                exc_info=trace,
            )
        else:
            if self.failures:
                log.info("%s works again after %d failure(s)", self.name, self.failures)
            self.failures = 0

    async def _pause(self, seconds: float) -> None:
        seconds *= 1 + self._jitter * random.random()
        try:
            async with asyncio.timeout(seconds):
                await self._wake.wait()
        except TimeoutError:
            pass


def next_pause(interval: float, failures: int, max_backoff: float) -> float:
    """Seconds until the next call, after so many failures in a row."""
    if failures <= 1:
        return interval
    backoff: float = interval * 2.0 ** min(failures - 1, 32)
    return max(interval, min(backoff, max_backoff))
