"""A cancellation that a driver's error took the place of."""

from __future__ import annotations

import asyncio
import contextlib

import pytest

from jobmesh.server.cancellation import cancellation_kept


class DriverError(Exception):
    """What a driver raises when it cannot undo what was cancelled."""


async def fails_when_cancelled() -> None:
    with cancellation_kept(DriverError):
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            raise DriverError from None


async def test_the_error_of_a_cancelled_task_is_its_cancellation() -> None:
    task = asyncio.create_task(fails_when_cancelled())
    await asyncio.sleep(0)
    task.cancel()
    await asyncio.wait({task})
    assert task.cancelled()


async def test_a_time_that_is_up_is_told_as_that() -> None:
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.01):
            await fails_when_cancelled()


async def test_the_error_of_a_task_that_nobody_stops_is_raised() -> None:
    with pytest.raises(DriverError), cancellation_kept(DriverError):
        raise DriverError


async def test_what_begins_after_the_stop_has_its_own_errors() -> None:
    async def cleans_up() -> str:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            with contextlib.suppress(DriverError), cancellation_kept(DriverError):
                raise DriverError from None
        return "cleaned up"

    task = asyncio.create_task(cleans_up())
    await asyncio.sleep(0)
    task.cancel()
    assert await task == "cleaned up"


async def test_other_errors_are_raised_also_in_a_task_that_was_stopped() -> None:
    async def fails() -> None:
        with cancellation_kept(DriverError):
            try:
                await asyncio.Event().wait()
            finally:
                raise LookupError

    task = asyncio.create_task(fails())
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(LookupError):
        await task
