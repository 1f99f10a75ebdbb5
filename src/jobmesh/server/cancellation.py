"""Keeps a cancellation that a driver loses to an error of its own."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def cancellation_kept(*errors: type[Exception]) -> Iterator[None]:
    """Within, one of these errors in a task that was told to stop is the stop.

    asyncpg, for one, may fail to roll back what was cancelled, and raises that in place of the
    cancellation. A loop that takes it for a failure tries again, and is never cancelled any more.
    """
    try:
        yield
    except errors as error:
        task = asyncio.current_task()
        if task is not None and task.cancelling():
            raise asyncio.CancelledError from error
        raise
