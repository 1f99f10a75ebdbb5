"""What a handler is given besides its arguments: who it is, and its line to the mesh.

An ``async`` handler gets a :class:`JobContext`, whose methods are awaited. A plain function, which
runs in a thread, gets a :class:`SyncJobContext`, whose methods block; it may annotate either. Both
carry the same attributes.
"""

from __future__ import annotations

import asyncio
import builtins
import threading
import time
from collections.abc import Generator, Mapping
from datetime import datetime
from typing import Any, TypeVar, overload

import msgspec

from jobmesh import codec
from jobmesh.durations import DurationLike
from jobmesh.job_log import JobLog
from jobmesh.line import JobInfo, Line
from jobmesh.outcomes import JobCancelled, PermanentError, RetryLater, Snooze
from jobmesh.steps import AsyncSteps, Function, StepBook, SyncSteps

T = TypeVar("T")

MOST_MESSAGE_CHARACTERS = 1000
YIELD_EVERY_SECONDS = 0.01


class ContextBase:
    """What contexts of both kinds have in common."""

    def __init__(self, info: JobInfo, line: Line) -> None:
        self._info = info
        self._line = line
        self._fraction = 0.0
        self._restored: Any = _NOT_DECODED
        self.log = JobLog(line)

    @property
    def job_id(self) -> str:
        """The job's UUID."""
        return self._info.job_id

    @property
    def type(self) -> str:
        """The task's name."""
        return self._info.type

    @property
    def queue(self) -> str:
        """The job's queue."""
        return self._info.queue

    @property
    def attempt(self) -> int:
        """Counts the claims of the job, from 1; it never goes back."""
        return self._info.attempt

    @property
    def fence(self) -> int:
        """The fencing token: hand it to systems that refuse writes with an older one."""
        return self._info.attempt

    @property
    def failures(self) -> int:
        """Attempts that failed before."""
        return self._info.failures

    @property
    def max_attempts(self) -> int:
        """Attempts that may fail in all; 0 if unknown."""
        return self._info.max_attempts

    @property
    def labels(self) -> Mapping[str, str]:
        """What the submitter attached."""
        return self._info.labels

    @property
    def create_time(self) -> datetime | None:
        """When the job was submitted, in UTC."""
        return self._info.create_time

    @property
    def deadline(self) -> datetime | None:
        """When this attempt must have ended, in UTC; None if it may take for ever."""
        return self._info.deadline

    @property
    def restored(self) -> Any:
        """The last checkpoint of an earlier attempt as builtins; None if there is none."""
        if self._restored is _NOT_DECODED:
            data = self._info.checkpoint
            self._restored = None if data is None else codec.decode(data)
        return self._restored

    def restored_as(self, kind: builtins.type[T]) -> T | None:
        """The last checkpoint decoded as ``kind``, e.g. a dataclass; None if there is none.

        :raises msgspec.ValidationError: it does not fit.
        """
        data = self._info.checkpoint
        if data is None:
            return None
        return msgspec.json.decode(data, type=kind, dec_hook=codec.decode_foreign)

    def permanent(self, message: str) -> PermanentError:
        """An error to raise that no retry can mend: ``raise job.permanent("no such month")``."""
        return PermanentError(message)

    def retry_after(self, delay: DurationLike, message: str = "") -> RetryLater:
        """An error to raise, after which the next attempt waits so long."""
        return RetryLater(delay, message)

    def snooze(self, delay: DurationLike) -> Snooze:
        """To raise: run the job again after so long, without charging a failure."""
        return Snooze(delay)

    def _report(self, fraction: float | None, message: str, current: int, total: int) -> None:
        if current < 0 or total < 0:
            raise ValueError("current and total of a progress must not be negative")
        if fraction is None:
            fraction = current / total if total else self._fraction
        if fraction != fraction:
            raise ValueError("the fraction of a progress must be a number")
        # Sums of floats end up a hair above 1; no job should fail for it.
        self._fraction = min(max(float(fraction), 0.0), 1.0)
        self._line.progress(
            self._fraction, message[:MOST_MESSAGE_CHARACTERS], int(current), int(total)
        )


_NOT_DECODED = object()


class Stop(asyncio.Event):
    """Set when an async handler should end; it gets a ``CancelledError`` as well.

    ``reason`` says why: a cancellation, a timeout, a drain, or that the job is no longer its own.
    """

    reason = ""


class SyncStop(threading.Event):
    """Set when a plain handler should end: nothing else can make a thread stop."""

    reason = ""


class JobContext(ContextBase):
    """The context of an ``async`` handler; it is used on the loop that runs the handler.

    ``cancelled`` is set when the handler should end: ``job.cancelled.is_set()``,
    ``await job.cancelled.wait()``. It gets a ``CancelledError`` too, and may clean up for as long
    as the grace lasts. What it returns all the same is recorded.
    """

    def __init__(self, info: JobInfo, line: Line) -> None:
        super().__init__(info, line)
        self.cancelled = Stop()
        self._pause = _Pause()
        self._storing = asyncio.Lock()
        self._steps = AsyncSteps(StepBook(line, info.steps))

    def progress(
        self, fraction: float | None = None, message: str = "", *, current: int = 0, total: int = 0
    ) -> _Pause:
        """Tell how far the handler is; ``await`` it, so that the loop gets a turn.

        It never waits for the network: the latest progress is sent, about ten times a second.

        :param fraction: 0 to 1; if left out, ``current / total``, or else as it was.
        :param message: what it is doing, cut at 1,000 characters.
        :param current, total: in whatever unit the handler counts.
        """
        self._report(fraction, message, current, total)
        return self._pause

    async def checkpoint(self, value: object) -> None:
        """Store ``value``, which replaces the last one; returns once it is durable.

        Calls from several tasks take turns. If it is cancelled, the value may yet be stored.

        :raises LeaseLost: the job is no longer this attempt's; the handler should stop.
        :raises NotSerializable, PayloadTooLarge: it is no JSON of at most 1 MiB.
        """
        async with self._storing:
            await asyncio.wrap_future(self._line.checkpoint(value))

    @overload
    async def once(self, key: str, function: Function) -> Any: ...

    @overload
    async def once(self, key: str, function: Function, kind: builtins.type[T]) -> T: ...

    async def once(
        self, key: str, function: Function, kind: builtins.type[Any] | None = None
    ) -> Any:
        """The result of a step that is run once for the job, not once for each attempt::

            receipt = await job.once("charge", lambda: bank.charge(amount, job.job_id))

        The result is stored under the job before this returns; a later attempt gets it, and the
        function is not called. It may be called a second time only if its runner was lost after it
        had done its work and before that was stored: hand systems that can tell a repetition a key.

        :param key: names the step within its job: 1 to 200 printable characters, 1,000 keys a job.
        :param function: without arguments; what it returns is awaited if it can be. If it raises,
            nothing is stored. A plain one that blocks belongs into ``asyncio.to_thread``.
        :param kind: what the result is decoded as, e.g. a dataclass; builtins if left out, in the
            first attempt, too.
        :raises LeaseLost: the job is no longer this attempt's; the handler should stop.
        :raises TooManySteps: the job has 1,000.
        :raises NotSerializable, PayloadTooLarge: the result is no JSON of at most 1 MiB.
        """
        return await self._steps.once(key, function, kind)

    async def settle_steps(self) -> None:
        """Wait until the results of steps that are there are stored, for 5 s at the longest.

        Done at a handler's end in any case, also if something beside its steps ended it.
        """
        await self._steps.settle()

    def heartbeat(self) -> _Pause:
        """Tell that the handler lives, for tasks with a ``heartbeat_timeout``.

        Progress, checkpoints, steps and log lines tell it as well. It costs nothing and need not be
        awaited; awaited, it gives the loop a turn now and then.
        """
        self._line.heartbeat()
        return self._pause

    def raise_if_cancelled(self) -> None:
        """Raise :class:`JobCancelled` if the handler should end."""
        if self.cancelled.is_set():
            raise JobCancelled(self.cancelled.reason)


class SyncJobContext(ContextBase):
    """The context of a plain handler, which runs in a thread; it may be shared with others.

    ``cancelled`` is set when the handler should end: ``job.cancelled.is_set()``,
    ``job.cancelled.wait(seconds)``. A handler that looks at it, or calls ``raise_if_cancelled`` now
    and then, stops in time; one that does not is left behind after the grace.
    """

    def __init__(self, info: JobInfo, line: Line) -> None:
        super().__init__(info, line)
        self.cancelled = SyncStop()
        self._storing = threading.Lock()
        self._steps = SyncSteps(StepBook(line, info.steps))

    def progress(
        self, fraction: float | None = None, message: str = "", *, current: int = 0, total: int = 0
    ) -> None:
        """Tell how far the handler is; see :meth:`JobContext.progress`. It does not block."""
        self._report(fraction, message, current, total)

    def checkpoint(self, value: object) -> None:
        """Store ``value`` and block until it is durable; see :meth:`JobContext.checkpoint`."""
        with self._storing:
            self._line.checkpoint(value).result()

    @overload
    def once(self, key: str, function: Function) -> Any: ...

    @overload
    def once(self, key: str, function: Function, kind: builtins.type[T]) -> T: ...

    def once(self, key: str, function: Function, kind: builtins.type[Any] | None = None) -> Any:
        """The result of a step that is run once for the job; see :meth:`JobContext.once`.

        It blocks until the result is stored.
        """
        return self._steps.once(key, function, kind)

    def heartbeat(self) -> None:
        """Tell that the handler lives; see :meth:`JobContext.heartbeat`."""
        self._line.heartbeat()

    def raise_if_cancelled(self) -> None:
        """Raise :class:`JobCancelled` if the handler should end."""
        if self.cancelled.is_set():
            raise JobCancelled(self.cancelled.reason)


class _Pause:
    """Awaited after a progress: gives up the loop for one turn, at most every 10 ms.

    A handler that computes and reports in a tight loop would otherwise let nobody else run, not
    even its own cancellation.
    """

    __slots__ = ("_next",)

    def __init__(self) -> None:
        self._next = 0.0

    def __await__(self) -> Generator[None, None, None]:
        now = time.monotonic()
        if now >= self._next:
            self._next = now + YIELD_EVERY_SECONDS
            yield
