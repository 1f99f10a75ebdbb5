"""``job.once``: a step whose result is stored under its job, for later attempts to find."""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, Protocol, TypeVar

import msgspec

from jobmesh import codec

T = TypeVar("T")

MOST_KEY_CHARACTERS = 200
AT_ONCE = 16
"""Results of one attempt that may be on their way to be stored."""
STORE_SECONDS = 5.0
"""For results to be stored although their handler was told to stop meanwhile."""

Function = Callable[[], Any]


class StepLine(Protocol):
    """The way to what is stored. Callable from any thread, and never blocking.

    Futures may raise LeaseLost or TooManySteps.
    """

    def find_step(self, key: str) -> Future[bytes | None]:
        """What is stored, as JSON; None if nothing is."""

    def store_step(self, key: str, data: bytes) -> Future[bytes]:
        """Store it, unless something is stored already; what is stored after all."""


class StepBook:
    """What one attempt knows of its job's steps.

    :param known: how many an earlier attempt stored: while there is none, nobody is asked.
    """

    def __init__(self, line: StepLine, known: int) -> None:
        self._line = line
        self._may_be_stored = known > 0
        self._stored: set[str] = set()

    def find(self, key: str) -> Future[bytes | None]:
        """What is stored, or None."""
        if self._may_be_stored or key in self._stored:
            return self._line.find_step(key)
        nothing: Future[bytes | None] = Future()
        nothing.set_result(None)
        return nothing

    def store(self, key: str, result: object) -> Future[bytes]:
        """Store the result of a step that was run.

        :raises NotSerializable, PayloadTooLarge: it is no JSON of at most 1 MiB.
        """
        data = codec.encode_within(result, f"result of step {key!r}")
        self._stored.add(key)
        return self._line.store_step(key, data)


class AsyncSteps:
    """Steps of an ``async`` handler; those of one key take turns.

    A stop loses no result: a step that is cancelled ends once all that is there by then is stored,
    or after STORE_SECONDS.
    """

    def __init__(self, book: StepBook) -> None:
        self._book = book
        self._locks: dict[str, asyncio.Lock] = {}
        self._room = asyncio.Semaphore(AT_ONCE)
        self._storing: set[asyncio.Task[bytes]] = set()

    async def once(self, key: str, function: Function, kind: type[Any] | None) -> Any:
        """See :meth:`jobmesh.JobContext.once`."""
        require_key(key)
        try:
            async with self._turn(key):
                data = await self._data_of(key, function)
        except asyncio.CancelledError:
            # Not its own result alone: a handler that gathers steps ends with the first that ends,
            # and what a handler has not stored by its end is not stored any more.
            await self.settle()
            raise
        return decoded(data, kind)

    async def settle(self) -> None:
        """Wait until the results that are there by now are stored, STORE_SECONDS at most."""
        await _at_most(STORE_SECONDS, set(self._storing))

    async def _data_of(self, key: str, function: Function) -> bytes:
        data = await asyncio.wrap_future(self._book.find(key))
        if data is not None:
            return data
        result = function()
        if inspect.isawaitable(result):
            result = await result
        storing = asyncio.create_task(self._store(key, result), name="store a step")
        self._storing.add(storing)
        storing.add_done_callback(self._storing.discard)
        return await _through_a_stop(storing)

    async def _store(self, key: str, result: object) -> bytes:
        # The place is taken only now: functions that take long keep no other's result waiting.
        async with self._room:
            return await asyncio.wrap_future(self._book.store(key, result))

    def _turn(self, key: str) -> asyncio.Lock:
        return self._locks.setdefault(key, asyncio.Lock())  # as many as a job may have steps


class SyncSteps:
    """Steps of a plain handler; those of one key take turns."""

    def __init__(self, book: StepBook) -> None:
        self._book = book
        self._lock = threading.Lock()
        self._locks: dict[str, threading.Lock] = {}

    def once(self, key: str, function: Function, kind: type[Any] | None) -> Any:
        """See :meth:`jobmesh.SyncJobContext.once`."""
        require_key(key)
        with self._turn(key):
            data = self._book.find(key).result()
            if data is None:
                data = self._book.store(key, function()).result()
        return decoded(data, kind)

    def _turn(self, key: str) -> threading.Lock:
        with self._lock:
            return self._locks.setdefault(key, threading.Lock())


def require_key(key: str) -> None:
    """:raises ValueError: a step cannot be called that."""
    if not 1 <= len(key) <= MOST_KEY_CHARACTERS:
        raise ValueError("the key of a step has 1 to 200 characters")
    if not key.isprintable():
        raise ValueError(f"the key of a step is printable, not {key!r}")


def decoded(data: bytes, kind: type[Any] | None) -> Any:
    """A stored result, as builtins or decoded as ``kind``."""
    if kind is None:
        return codec.decode(data)
    return msgspec.json.decode(data, type=kind, dec_hook=codec.decode_foreign)


async def _through_a_stop(storing: asyncio.Task[T]) -> T:
    """Its result; a handler that is told to stop meanwhile does so once it is stored.

    What the step did is done: an attempt that ended before its result was stored would have the
    next one do it again. After STORE_SECONDS it is given up.
    """
    try:
        await asyncio.wait([storing])
    except asyncio.CancelledError:
        await _at_most(STORE_SECONDS, {storing})
        storing.cancel()
        await asyncio.gather(storing, return_exceptions=True)
        raise
    return storing.result()


async def _at_most(seconds: float, tasks: set[asyncio.Task[Any]]) -> None:
    """Wait for the tasks, and be stopped by nothing but the time: whoever waits was told to."""
    clock = asyncio.get_running_loop().time
    ends = clock() + seconds
    while (left := ends - clock()) > 0 and (tasks := {task for task in tasks if not task.done()}):
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.wait(tasks, timeout=left)
