"""Keep a fixed number of calls in flight."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable
from typing import TypeVar

T = TypeVar("T")


async def rate(items: Iterable[T], call: Callable[[T], Awaitable[object]], in_flight: int) -> float:
    """Calls a second, over all items, with never more than ``in_flight`` at a time."""
    count = 0
    pending = iter(items)

    async def worker() -> None:
        nonlocal count
        for item in pending:
            await call(item)
            count += 1

    began = time.perf_counter()
    async with asyncio.TaskGroup() as group:
        for _ in range(in_flight):
            group.create_task(worker())
    return count / (time.perf_counter() - began)
