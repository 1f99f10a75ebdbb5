"""Wait for a condition, with a deadline and a failure that says what was seen."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable
from typing import TypeVar, overload

T = TypeVar("T")
SELDOM = 0.05


@overload
async def until(
    condition: Callable[[], Awaitable[T]],
    timeout: float = ...,
    describe: str | Callable[[], object] = ...,
    interval: float = ...,
) -> T: ...


@overload
async def until(
    condition: Callable[[], T],
    timeout: float = ...,
    describe: str | Callable[[], object] = ...,
    interval: float = ...,
) -> T: ...


async def until(
    condition: Callable[[], T | Awaitable[T]],
    timeout: float = 10.0,
    describe: str | Callable[[], object] = "the condition holds",
    interval: float = 0.01,
) -> T:
    """The first truthy value of `condition`, a plain or an async function asked again and again.

    A failed assertion in it counts as not yet; any other exception is the caller's.
    `describe` says what is awaited, or returns what to show when it did not come. `interval` is how
    long it waits between looks at first; what takes long is looked at less often.

    :raises AssertionError: after `timeout` seconds, with the last value or failed assertion.
    """
    clock = asyncio.get_running_loop().time
    began = clock()
    deadline = began + timeout
    last: object = "never asked"
    while True:
        try:
            value = await _ask(condition, max(deadline - clock(), interval))
            if value:
                return value
            last = repr(value)
        except AssertionError as error:
            last = f"failed assertion: {error}"
        except _TookTooLong:
            last = f"no answer (before that: {last})"
        if clock() >= deadline:
            shown = describe if isinstance(describe, str) else describe()
            raise AssertionError(f"not within {timeout} s: {shown}; last seen: {last}")
        await asyncio.sleep(max(interval, min(SELDOM, (clock() - began) / 10)))


class _TookTooLong(Exception):
    pass


async def _ask(condition: Callable[[], T | Awaitable[T]], timeout: float) -> T:
    answer = condition()
    if not inspect.isawaitable(answer):
        return answer
    try:
        async with asyncio.timeout(timeout) as deadline:
            return await answer
    except TimeoutError:
        if deadline.expired():
            raise _TookTooLong from None
        raise
