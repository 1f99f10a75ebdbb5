"""Calls of every kind, by several callers at once, each of them recorded."""

from __future__ import annotations

import asyncio
import itertools
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any, NamedTuple, TypeVar

import jobmesh
from jobmesh.errors import JobmeshError
from jobmesh.task import Task
from tests.acceptance.handlers import note
from tests.support.wait import until

T = TypeVar("T")

PATIENCE = 45.0


class Done(NamedTuple):
    """A call that was made: which, how long it took, and what went wrong."""

    kind: str
    seconds: float
    error: str


Work = tuple[Task[..., Any], dict[str, Any]]


def notes(number: int) -> Work:
    """The same small job again and again."""
    return note, {"number": number}


class Load:
    """Use it by `under_load`. `acknowledged` are the jobs whose submission was answered."""

    def __init__(self, mesh: jobmesh.Client, work: Callable[[int], Work]) -> None:
        self.done: list[Done] = []
        self.acknowledged: list[str] = []
        self._mesh = mesh
        self._work = work
        self._numbers = itertools.count()

    async def more(self, calls: int) -> None:
        """Wait until so many more calls have been made, and the last of those on their way now."""
        wanted = len(self.done) + calls
        await until(lambda: len(self.done) >= wanted, PATIENCE, lambda: f"{calls} calls; {self}")

    @property
    def failed(self) -> list[Done]:
        """The calls that a caller saw fail."""
        return [done for done in self.done if done.error]

    @property
    def slowest(self) -> float:
        """Seconds that the slowest call took."""
        return max((done.seconds for done in self.done), default=0.0)

    def __str__(self) -> str:
        kinds = dict(Counter(done.kind for done in self.done))
        return f"{kinds}, slowest {self.slowest:.2f} s, failed: {self.failed[:10]}"

    async def call(self) -> None:
        """Make calls until cancelled."""
        while True:
            number = next(self._numbers)
            task, arguments = self._work(number)
            job = await self._note("submit", self._mesh.submit(task, **arguments))
            if job is None:
                continue
            self.acknowledged.append(job.id)
            await self._note("get", job.get())
            if number % 10 == 0:
                await self._note("queue", self._mesh.queues.get("default"))
            if number % 5 == 0:
                await self._note("list", self._list())

    async def _list(self) -> None:
        async for _ in self._mesh.list(limit=3):
            pass

    async def _note(self, kind: str, call: Awaitable[T]) -> T | None:
        began = time.monotonic()
        error, answer = "", None
        try:
            answer = await call
        except JobmeshError as failure:
            error = f"{type(failure).__name__}: {failure}"
        self.done.append(Done(kind, time.monotonic() - began, error))
        return answer


@asynccontextmanager
async def under_load(
    mesh: jobmesh.Client, work: Callable[[int], Work] = notes, callers: int = 6
) -> AsyncIterator[Load]:
    """Calls go on while the block runs. `work` makes the job of a number."""
    load = Load(mesh, work)
    tasks = [asyncio.create_task(load.call()) for _ in range(callers)]
    try:
        yield load
        for task in tasks:
            assert not task.done(), "a caller has ended"
    finally:
        for task in tasks:
            task.cancel()
        ended = await asyncio.gather(*tasks, return_exceptions=True)
    for error in ended:
        assert isinstance(error, asyncio.CancelledError), error
