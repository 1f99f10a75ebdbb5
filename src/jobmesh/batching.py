"""Group concurrent items into batches without a timer.

Whatever arrives while a flight is in the air goes into the next one. Idle adds no delay (an item
leaves at the end of the loop's current turn); busy pays one flight for hundreds of items. The size
of a batch thus follows the load by itself, as in group commit.
"""

from __future__ import annotations

import asyncio
import contextvars
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Generic, TypeVar

from jobmesh.errors import Draining, Overloaded

T = TypeVar("T")
R = TypeVar("R")

log = logging.getLogger(__name__)


def next_batch_length(sizes: Iterable[int], max_items: int, max_bytes: int) -> int:
    """How many of the waiting items, oldest first, the next batch takes.

    As many as fit both limits, but always the first: an item over ``max_bytes`` goes alone.
    """
    count = total = 0
    for size in sizes:
        total += size
        if count == max_items or (count and total > max_bytes):
            break
        count += 1
    return count


class _Entry(Generic[T, R]):
    __slots__ = ("future", "item", "size", "taken")

    def __init__(self, item: T, size: int, future: asyncio.Future[R]) -> None:
        self.item = item
        self.size = size
        self.future = future
        self.taken = False


class Batcher(Generic[T, R]):
    """Groups the items of concurrent :meth:`submit` calls into calls of ``flush``.

    - ``flush`` gets 1 to ``max_items`` items and returns one result for each, in order; a result
      that is an exception is raised to its submitter, a raised one to all of the batch.
    - ``max_items``, ``max_bytes``: the most that one flight carries (sizes as told to ``submit``).
    - ``max_waiting``: items that may wait for a flight; above it ``submit`` raises
      :class:`~jobmesh.errors.Overloaded`.
    - ``flights``: how many may be in the air at once.
    - ``name``: for errors, logs and the names of tasks.
    """

    def __init__(
        self,
        flush: Callable[[list[T]], Awaitable[Sequence[R | BaseException]]],
        *,
        max_items: int = 500,
        max_bytes: int = 4 << 20,
        max_waiting: int = 10_000,
        flights: int = 1,
        name: str = "batcher",
    ) -> None:
        if min(max_items, max_bytes, max_waiting, flights) < 1:
            raise ValueError("the limits of a Batcher are at least 1")
        self.name = name
        self._flush = flush
        self._max_items = max_items
        self._max_bytes = max_bytes
        self._max_waiting = max_waiting
        self._max_flights = flights
        self._waiting: deque[_Entry[T, R]] = deque()
        self._abandoned = 0  # entries in _waiting whose submitter left
        self._flights: set[asyncio.Task[None]] = set()
        self._launching = False
        self._open = False
        self._landed = asyncio.Event()
        self._loop: asyncio.AbstractEventLoop
        self._context: contextvars.Context

    @property
    def waiting(self) -> int:
        """Items that wait for a flight."""
        return len(self._waiting) - self._abandoned

    @property
    def in_flight(self) -> int:
        """Flights in the air."""
        return len(self._flights)

    async def start(self) -> None:
        """Accept items."""
        self._loop = asyncio.get_running_loop()
        # Flights carry items of many callers: none of them may lend them its context.
        self._context = contextvars.copy_context()
        self._open = True

    async def stop(self) -> None:
        """Refuse new items, then wait until those accepted are answered.

        If it is cancelled, flights are cancelled and their submitters get
        :class:`~jobmesh.errors.Draining`.
        """
        self._open = False
        try:
            while self._flights or self.waiting:
                self._landed.clear()
                await self._landed.wait()
        except asyncio.CancelledError:
            await self._abort()
            raise

    async def submit(self, item: T, size: int = 0) -> R:
        """The result of ``flush`` for this item; ``size`` in bytes counts towards ``max_bytes``."""
        entry = self._append(item, size)
        try:
            return await entry.future
        except asyncio.CancelledError:
            if not entry.taken:
                self._abandon()
            raise

    def put(self, item: T, size: int = 0) -> asyncio.Future[R]:
        """As :meth:`submit`, for callers with many items at once: a future costs less than a task.

        The item is flushed even if its future is cancelled meanwhile.
        """
        return self._append(item, size).future

    def _append(self, item: T, size: int) -> _Entry[T, R]:
        if not self._open:
            raise Draining(self.name)
        if len(self._waiting) - self._abandoned >= self._max_waiting:
            raise Overloaded(self.name)
        entry: _Entry[T, R] = _Entry(item, size, self._loop.create_future())
        self._waiting.append(entry)
        if not self._launching and len(self._flights) < self._max_flights:
            self._launching = True
            self._loop.call_soon(self._launch, context=self._context)
        return entry

    def _abandon(self) -> None:
        self._abandoned += 1
        # Seldom enough to cost little, often enough to hold no memory for those who left.
        if self._abandoned * 2 > len(self._waiting):
            self._sweep()
        if not self._waiting:
            self._landed.set()

    def _sweep(self) -> None:
        self._waiting = deque(entry for entry in self._waiting if not entry.future.done())
        self._abandoned = 0

    def _launch(self) -> None:
        self._launching = False
        if self._abandoned:
            self._sweep()
        while self._waiting and len(self._flights) < self._max_flights:
            flight = self._loop.create_task(
                self._fly(self._take()), name=f"{self.name}-flight", context=self._context
            )
            self._flights.add(flight)
            flight.add_done_callback(self._land)

    def _take(self) -> list[_Entry[T, R]]:
        waiting = self._waiting
        sizes = (entry.size for entry in waiting)
        count = next_batch_length(sizes, self._max_items, self._max_bytes)
        batch = [waiting.popleft() for _ in range(count)]
        for entry in batch:
            entry.taken = True
        return batch

    async def _fly(self, batch: list[_Entry[T, R]]) -> None:
        try:
            results = await self._flush([entry.item for entry in batch])
            if len(results) != len(batch):
                raise RuntimeError(
                    f"{self.name}: flush returned {len(results)} results for {len(batch)} items"
                )
            _answer(batch, results)
        except asyncio.CancelledError:
            _fail(batch, Draining(self.name))
            raise
        except Exception as error:
            _fail(batch, error)

    def _land(self, flight: asyncio.Task[None]) -> None:
        self._flights.discard(flight)
        if not flight.cancelled() and (error := flight.exception()):
            log.error("%s: a flight broke", self.name, exc_info=error)
        self._launch()
        self._landed.set()

    async def _abort(self) -> None:
        waiting, self._waiting = list(self._waiting), deque()
        self._abandoned = 0
        _fail(waiting, Draining(self.name))
        flights = list(self._flights)
        for flight in flights:
            flight.cancel()
        await asyncio.gather(*flights, return_exceptions=True)


def _answer(batch: list[_Entry[T, R]], results: Sequence[R | BaseException]) -> None:
    for entry, result in zip(batch, results, strict=True):
        if entry.future.done():
            continue
        if isinstance(result, BaseException):
            entry.future.set_exception(result)
        else:
            entry.future.set_result(result)


def _fail(batch: Iterable[_Entry[T, R]], error: BaseException) -> None:
    for entry in batch:
        if not entry.future.done():
            entry.future.set_exception(error)
