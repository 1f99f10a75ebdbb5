"""A PostgreSQL that is killed, frozen, made read-only and lied to about the time."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import importlib.util
import os
import random
import signal
from pathlib import Path

import asyncpg

from jobmesh.dev.account import Account
from jobmesh.dev.child import Program
from jobmesh.dev.postgres import EmbeddedPostgres, PostgresConfig

TIMEOUT = 10.0
LIBRARY = "vendor/libfaketime/src/libfaketime.so.1"


class HurtPostgres(EmbeddedPostgres):
    """What it has committed survives its own death; not the machine's, which saves much time.

    :param clock: lets `set_clock` work, which costs a little.
    """

    def __init__(self, root: Path, port: int, *, clock: bool = False) -> None:
        super().__init__(PostgresConfig(root=root, port=port))
        self.port = port
        # Beside what only we may read: the server runs under another account.
        self._offset = root.parent / "clock" if clock else None

    def _server(self, account: Account | None) -> Program:
        program = super()._server(account)
        command = (*program.command, "-cfsync=off", "-cfull_page_writes=off")
        if self._offset is not None:
            command = ("/usr/bin/env", *self._faked(), *command)
        return dataclasses.replace(program, command=command)

    def _faked(self) -> list[str]:
        self.set_clock(0)
        spec = importlib.util.find_spec("libfaketime")
        assert spec is not None, "install libfaketime (make does)"
        assert spec.origin is not None
        return [
            f"LD_PRELOAD={Path(spec.origin).parent / LIBRARY}",
            f"FAKETIME_TIMESTAMP_FILE={self._offset}",
            "FAKETIME_NO_CACHE=1",
            "FAKETIME_DONT_FAKE_MONOTONIC=1",
            "FAKETIME_DISABLE_SHM=1",
        ]

    def set_clock(self, seconds: int) -> None:
        """Set the server's clock so far ahead, or back, at once."""
        assert self._offset is not None, "made without a clock"
        draft = self._offset.with_suffix(".new")
        draft.write_text(f"{seconds:+d}\n")
        draft.chmod(0o644)
        draft.rename(self._offset)

    def processes(self) -> list[int]:
        """The server's process, and then those that it has forked."""
        assert self.child is not None
        return [self.child.pid, *_children(self.child.pid)]

    async def kill_all(self) -> None:
        """SIGKILL to all its processes, as if the machine had no memory left."""
        assert self.child is not None
        self._signal_all(signal.SIGKILL)
        await self.child.wait()

    def kill_one(self, dice: random.Random) -> None:
        """SIGKILL to one of its backends: the server ends all others, and recovers."""
        backends = [pid for pid in self.processes()[1:] if b"jobmesh" in _command(pid)]
        if backends:
            _signal(dice.choice(backends), signal.SIGKILL)

    def freeze(self) -> None:
        """Stop all its processes; connections stay open."""
        self._signal_all(signal.SIGSTOP)

    def thaw(self) -> None:
        """Let them go on."""
        self._signal_all(signal.SIGCONT)

    async def set_read_only(self, read_only: bool) -> None:
        """Refuse writes, in all sessions, as a demoted primary does."""
        connection = await asyncpg.connect(self.dsn(), timeout=TIMEOUT, command_timeout=TIMEOUT)
        try:
            value = "on" if read_only else "off"
            await connection.execute(f"ALTER SYSTEM SET default_transaction_read_only = {value}")
            await connection.execute("SELECT pg_reload_conf()")
        finally:
            await connection.close(timeout=TIMEOUT)

    async def stop(self) -> None:
        if self.child is not None and self.child.exit_code is None:
            self.thaw()
        await asyncio.shield(super().stop())

    def _signal_all(self, number: signal.Signals) -> None:
        """To the server first, so that it forks no more."""
        reached: set[int] = set()
        while missed := [pid for pid in self.processes() if pid not in reached]:
            for pid in missed:
                _signal(pid, number)
                reached.add(pid)


def _signal(pid: int, number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, number)


def _children(pid: int) -> list[int]:
    try:
        return [int(x) for x in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except OSError:
        return []


def _command(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""
