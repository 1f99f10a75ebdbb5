"""``job.once``: a step whose result is stored under its job, for later attempts to find."""

from __future__ import annotations

import asyncio
import inspect
import threading
from collections.abc import Awaitable, Callable
from concurrent.futures import Future
from typing import Any, Protocol, TypeVar

import msgspec

from jobmesh import codec

T = TypeVar("T")

MOST_KEY_CHARACTERS = 200
AT_ONCE = 16
"""Results of one attempt that may be on their way to be stored."""
STORE_SECONDS = 5.0
"""For a result to be stored although its handler was told to stop meanwhile."""

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
    """Steps of an ``async`` handler; those of one key take turns."""

    def __init__(self, book: StepBook) -> None:
        self._book = book
        self._locks: dict[str, asyncio.Lock] = {}
        self._room = asyncio.Semaphore(AT_ONCE)

    async def once(self, key: str, function: Function, kind: type[Any] | None) -> Any:
        """See :meth:`jobmesh.JobContext.once`."""
        require_key(key)
        async with self._turn(key):
            data = await asyncio.wrap_future(self._book.find(key))
            if data is None:
                result = function()
                if inspect.isawaitable(result):
                    result = await result
                async with self._room:
                    data = await _through_a_stop(self._book.store(key, result))
        return decoded(data, kind)

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


async def _through_a_stop(storing: Future[T]) -> T:
    """Its result; a handler that is told to stop meanwhile does so once it is stored.

    What the step did is done: an attempt that ended before its result was stored would have the
    next one do it again.
    """
    waiting: Awaitable[T] = asyncio.wrap_future(storing)
    try:
        return await asyncio.shield(waiting)
    except asyncio.CancelledError:
        await asyncio.wait([asyncio.ensure_future(waiting)], timeout=STORE_SECONDS)
        raise
