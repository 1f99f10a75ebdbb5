"""Keeps the logs of a mesh that runs for days within bounds."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Iterable
from pathlib import Path

LARGEST = 64 * 1024 * 1024
INTERVAL = 30.0


async def keep_small(logs: Iterable[Path], largest: int = LARGEST) -> None:
    """Rotate for ever: each log is cut when it exceeds `largest` bytes."""
    files = list(logs)
    while True:
        for log in files:
            await asyncio.to_thread(rotate, log, largest)
        await asyncio.sleep(INTERVAL)


def rotate(log: Path, largest: int) -> bool:
    """If it is too large, copy a log to `<name>.1` and empty it; whether it was.

    Its writers keep it open for appending, so they go on at its new start. Lines that come between
    the copy and the cut are lost.
    """
    if not log.exists() or log.stat().st_size <= largest:
        return False
    shutil.copyfile(log, log.with_name(log.name + ".1"))
    with log.open("r+b") as file:
        file.truncate(0)
    return True
