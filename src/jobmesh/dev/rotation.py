"""Keeps the logs of a mesh that runs for days within bounds."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import shutil
from collections.abc import Iterable
from pathlib import Path

logger = logging.getLogger("jobmesh.dev")

LARGEST = 64 * 1024 * 1024
INTERVAL = 30.0


async def keep_small(logs: Iterable[Path], largest: int = LARGEST) -> None:
    """Rotate for ever: each log is cut when it exceeds `largest` bytes."""
    files = list(logs)
    while True:
        for log in files:
            try:
                await asyncio.to_thread(rotate, log, largest)
            except OSError as error:  # the next time, perhaps; and the others now
                logger.warning("%s is not rotated: %s", log, error)
        await asyncio.sleep(INTERVAL)


def rotate(log: Path, largest: int) -> bool:
    """If it is too large, copy a log to `<name>.1` and empty it; whether it was.

    Its writers keep it open for appending, so they go on at its new start. Lines that come between
    the copy and the cut are lost; so is all of it, if it cannot be copied.
    """
    if not log.exists() or log.stat().st_size <= largest:
        return False
    problem = _copy(log, log.with_name(log.name + ".1"))
    with log.open("r+b") as file:
        file.truncate(0)
    if problem is not None:
        logger.warning("%s was too large and is emptied; no copy is kept: %s", log, problem)
    return True


def _copy(log: Path, copy: Path) -> OSError | None:
    """What was in the way of it."""
    try:
        shutil.copyfile(log, copy)
    except OSError as error:
        # Space is what is missing, most likely: half a copy takes more of it, and a log that is
        # kept because it cannot be copied takes ever more.
        with contextlib.suppress(OSError):
            copy.unlink(missing_ok=True)
        return error
    return None
