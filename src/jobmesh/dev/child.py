"""One program run as a child process that cannot outlive this one."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
from asyncio.subprocess import DEVNULL, STDOUT
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from jobmesh.dev.account import Account
from jobmesh.dev.errors import ProgramFailed
from jobmesh.server.forked import LOST

TETHER = Path(__file__).with_name("tether.py")
KILL_GRACE = 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """What to run: how it is called, where its output goes, how it hears that we have gone."""

    name: str
    command: tuple[str, ...]
    log: Path
    environment: Mapping[str, str] | None = None
    directory: Path | None = None
    orphan_signal: signal.Signals = signal.SIGKILL
    account: Account | None = None

    def open_log(self) -> int:
        """A descriptor that appends to its log, for its owner's eyes."""
        return os.open(self.log, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)


class Process(Protocol):
    """What a child needs of its process; as asyncio has it."""

    @property
    def pid(self) -> int: ...

    @property
    def returncode(self) -> int | None: ...

    async def wait(self) -> int: ...


class Child:
    """A started `Program`. Output goes to its log; it leads a group, and so has its own signals."""

    def __init__(self, program: Program, process: Process) -> None:
        self.program = program
        self._process = process
        self._swept = False

    @classmethod
    async def start(cls, program: Program) -> Child:
        """Start it. Call this on a thread that lives as long as the child shall: the main one."""
        log = program.open_log()
        try:
            process = await asyncio.create_subprocess_exec(
                *_tethered(program),
                stdin=DEVNULL,
                stdout=log,
                stderr=STDOUT,
                cwd=program.directory,
                env=None if program.environment is None else dict(program.environment),
                start_new_session=True,
            )
        finally:
            os.close(log)
        return cls(program, process)

    @property
    def pid(self) -> int:
        """Process id of the program itself."""
        return self._process.pid

    @property
    def exit_code(self) -> int | None:
        """None while it runs; negative for the signal that ended it."""
        return self._process.returncode

    def require_running(self) -> None:
        """Raise `ProgramFailed` if it has ended."""
        if self.exit_code is not None:
            raise ProgramFailed(
                self.program.name, f"ended with {describe_exit(self.exit_code)}", self.program.log
            )

    async def wait(self) -> int:
        """Wait until it has ended; its exit code."""
        return await self._process.wait()

    def send(self, number: signal.Signals) -> None:
        """Send it a signal, if it still runs."""
        # Not by asyncio, which asks first whether it has ended, and so may take its exit code from
        # who waits for that.
        if self.exit_code is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, number)

    async def stop(self, *steps: tuple[signal.Signals, float]) -> int:
        """Send each signal and give it so many seconds to end; at last kill. Safe to repeat."""
        for number, grace in steps:
            if self.exit_code is not None:
                break
            self.send(number)
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self.wait(), grace)
        self.kill()
        return await asyncio.wait_for(self.wait(), KILL_GRACE)

    def kill(self) -> None:
        """End it at once, with all that it started and did not put into another session.

        After it has ended by itself this ends what it left; once, as its number is free from then.
        """
        if not self._swept:
            self._swept = self.exit_code is not None
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self.pid, signal.SIGKILL)


def describe_exit(code: int) -> str:
    """An exit code in words: `code 3`, `SIGKILL`."""
    if code == LOST:
        return "the process it was forked from"
    if code >= 0:
        return f"code {code}"
    try:
        return signal.Signals(-code).name
    except ValueError:
        return f"signal {-code}"


def _tethered(program: Program) -> Sequence[str]:
    options = [f"--parent={os.getpid()}", f"--signal={int(program.orphan_signal)}"]
    if program.account is not None:
        options += [f"--uid={program.account.uid}", f"--gid={program.account.gid}"]
        if program.account.capability is not None:
            options.append(f"--capability={program.account.capability}")
    return (sys.executable, "-I", "-S", str(TETHER), *options, "--", *program.command)
