"""What a killed predecessor left behind: a server still shutting down, or the file naming it."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from pathlib import Path

ORPHAN_GRACE = 20.0
POLL = 0.05


async def end_orphan(pid_file: Path, directory: Path, number: signal.Signals) -> None:
    """See that no server from an earlier life runs in `directory`.

    A live one is asked to end, then killed; the file of one that has gone is removed, since its
    process id may belong to another program by now, which PostgreSQL takes for a running server.
    Only for a directory that is ours alone (the caller holds its lock).
    """
    pid = _read_pid(pid_file)
    if pid is None:
        return
    if _serves(pid, directory):
        await _end(pid, directory, number)
    pid_file.unlink(missing_ok=True)  # noqa: ASYNC240 - one small file


async def _end(pid: int, directory: Path, number: signal.Signals) -> None:
    _signal(pid, number)
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(ORPHAN_GRACE):
            await _gone(pid, directory)
            return
    _signal(pid, signal.SIGKILL)
    async with asyncio.timeout(ORPHAN_GRACE):
        await _gone(pid, directory)


async def _gone(pid: int, directory: Path) -> None:
    while _serves(pid, directory):  # noqa: ASYNC110 - no child of ours: there is no event
        await asyncio.sleep(POLL)


def _read_pid(pid_file: Path) -> int | None:
    try:
        return int(pid_file.read_text().split()[0])
    except (FileNotFoundError, ValueError, IndexError):
        return None


def _serves(pid: int, directory: Path) -> bool:
    """Whether this process works in that directory, as PostgreSQL and our NATS do in theirs."""
    try:
        return Path(f"/proc/{pid}/cwd").readlink() == directory.resolve()
    except OSError:
        return False


def _signal(pid: int, number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.kill(pid, number)
