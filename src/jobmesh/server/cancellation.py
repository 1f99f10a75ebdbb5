"""Keeps a cancellation that a driver loses to an error of its own."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def cancellation_kept(*errors: type[Exception]) -> Iterator[None]:
    """Within, one of these errors after the task was told to stop is the stop.

    asyncpg, for one, may fail to roll back what was cancelled, or a server that is gone does not
    acknowledge it in time; that is raised in place of the cancellation. A loop that takes it for a
    failure tries again, and is never cancelled any more. What begins after the stop, as a task
    cleans up, has its errors as they are.
    """
    task = asyncio.current_task()
    before = task.cancelling() if task is not None else 0
    try:
        yield
    except errors as error:
        if task is not None and task.cancelling() > before:
            raise asyncio.CancelledError from error
        raise
