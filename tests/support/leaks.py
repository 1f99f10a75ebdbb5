"""What a test left behind: child processes and tasks."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from pathlib import Path

from tests.support.wait import until

SETTLE = 1.0
# Started once and kept for the life of the process: of the standard library, and of `forked`.
KEPT = ("resource_tracker", "forkserver", "tests.support.forked")
# Each tells the processes of something that outlives a test, such as a mesh shared by a module.
shared: list[Callable[[], set[int]]] = []


def children() -> set[int]:
    """Child processes of this one, without shared ones; also those that were forked for it."""
    direct = _children_of("self")
    kept = {pid for pid in direct if any(word in command_of(pid) for word in KEPT)}
    found = (direct - kept).union(*map(_children_of, kept))
    return found.difference(*(pids() for pids in shared))


def _children_of(process: int | str) -> set[int]:
    found: set[int] = set()
    for file in Path(f"/proc/{process}/task").glob("*/children"):
        with contextlib.suppress(OSError):  # a thread that has just ended
            found.update(int(pid) for pid in file.read_text().split())
    return found


def command_of(pid: int) -> str:
    """Its command line, or what is known in place of one."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_text().replace("\0", " ").strip() or "a zombie"
    except OSError:
        return "gone"


def describe(pids: set[int]) -> str:
    """Process ids with their command lines."""
    return ", ".join(f"{pid} ({command_of(pid)})" for pid in sorted(pids))


async def require_no_tasks_beside(known: set[asyncio.Task[object]]) -> None:
    """Fail if other tasks than these are still there after a moment to finish in."""

    def leaked() -> list[asyncio.Task[object]]:
        return [task for task in asyncio.all_tasks() - known if task is not asyncio.current_task()]

    await until(
        lambda: not leaked(), SETTLE, lambda: f"no task left, and there are {leaked()}", 0.001
    )
