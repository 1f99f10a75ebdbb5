"""What a killed predecessor left behind: a server still shutting down, or the file naming it."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from pathlib import Path

from jobmesh.dev.errors import DevError

ORPHAN_GRACE = 20.0
POLL = 0.05


async def end_orphan(pid_file: Path, argument: str, number: signal.Signals) -> None:
    """See that no server of an earlier life of ours runs any more.

    It is known by its process id, and by `argument` on its command line. A live one is asked to
    end by the signal, then killed. If the process id belongs to another program by now, the file is
    removed, since PostgreSQL would take that program for itself; otherwise PostgreSQL's own checks
    of a stale file are left to it. Only for files that are ours alone: the caller holds their lock.

    :raises DevError: if it does not end.
    """
    pid = _read_pid(pid_file)
    if pid is None:
        return
    command = _command(pid)
    if argument in command:
        await _end(pid, argument, number)
    elif command:
        pid_file.unlink(missing_ok=True)


async def _end(pid: int, argument: str, number: signal.Signals) -> None:
    _signal(pid, number)
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(ORPHAN_GRACE):
            await _gone(pid, argument)
            return
    _signal(pid, signal.SIGKILL)
    try:
        async with asyncio.timeout(ORPHAN_GRACE):
            await _gone(pid, argument)
    except TimeoutError:
        raise DevError(f"process {pid} of an earlier start does not end, not even killed") from None


async def _gone(pid: int, argument: str) -> None:
    while argument in _command(pid):  # noqa: ASYNC110 - no child of ours: there is no event
        await asyncio.sleep(POLL)


def _read_pid(pid_file: Path) -> int | None:
    try:
        return int(pid_file.read_text().split()[0])
    except (FileNotFoundError, ValueError, IndexError):
        return None


def _command(pid: int) -> list[str]:
    """Its command line; empty if there is no such process, or only its remains."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_text(errors="replace").split("\0")[:-1]
    except OSError:
        return []


def _signal(pid: int, number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.kill(pid, number)
