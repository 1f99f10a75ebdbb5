"""`jobmesh …` as a process that is forked from one that has imported it all.

Most of what a service costs at its start is half a second of imports, and the tests start hundreds.
What is forked is the process that the command would be, from its arguments and environment on.
Tests of starting, of `jobmesh dev`, of the pages' commands and of what `deploy/` starts run what a
user would. Run as a module, this is the process that is forked.
"""

from __future__ import annotations

import asyncio
import atexit
import ctypes
import importlib
import json
import os
import signal
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from tempfile import TemporaryFile

from jobmesh.cli.commands import COMMANDS
from jobmesh.cli.main import main
from jobmesh.dev.child import Child, Program
from jobmesh.server import fork_server, forked

IMPORTED = [
    *sorted({entry.path.partition(":")[0] for entry in COMMANDS.values()}),
    *(f"jobmesh_{name}.main" for name in ("dispatcher", "gateway", "runner", "scheduler")),
]
PR_SET_PDEATHSIG = 1

server = forked.ForkServer(__name__)


def start(program: Program, arguments: Sequence[str]) -> Child:
    """Start `program` by forking: these are what its command says behind `jobmesh`."""
    log = os.open(program.log, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
    nothing = os.open(os.devnull, os.O_RDONLY)
    try:
        return Child(program, _fork(arguments, program.environment or {}, (nothing, log, log)))
    finally:
        os.close(log)
        os.close(nothing)


async def run(
    arguments: Sequence[str], environment: Mapping[str, str], given: str, timeout: float
) -> tuple[int, str, str]:
    """Run a command to its end: its exit code, what it printed, and what of errors.

    :param given: its standard input.
    """
    with TemporaryFile() as stdin, TemporaryFile() as stdout, TemporaryFile() as stderr:
        stdin.write(given.encode())
        stdin.seek(0)
        files = stdin, stdout, stderr
        process = _fork(arguments, environment, [file.fileno() for file in files])
        try:
            code = await asyncio.wait_for(process.wait(), timeout)
        except BaseException:
            process.send_signal(signal.SIGKILL)
            await process.wait()
            raise
        stdout.seek(0)
        stderr.seek(0)
        return code, stdout.read().decode(), stderr.read().decode()


def _fork(
    arguments: Sequence[str], environment: Mapping[str, str], fds: Sequence[int]
) -> AsyncForked:
    order = json.dumps([arguments, dict(environment)]).encode()
    return AsyncForked(server.fork(order, fds))


class AsyncForked:
    """A forked process as asyncio would show it."""

    def __init__(self, process: forked.Forked) -> None:
        self.pid = process.pid
        self._process = process

    @property
    def returncode(self) -> int | None:
        """None while it runs; negative for the signal that ended it."""
        return self._process.poll()

    async def wait(self) -> int:
        """Wait until it has ended; its exit code."""
        loop, ended = asyncio.get_running_loop(), asyncio.Event()
        # Of our own: two may wait for it, and a loop has one reader of a descriptor.
        told = os.dup(self._process.fileno())
        loop.add_reader(told, ended.set)
        try:
            await ended.wait()
        finally:
            loop.remove_reader(told)
            os.close(told)
        return self._process.wait()

    def send_signal(self, signal: int, /) -> None:
        """Send it a signal, if it still runs."""
        if self.returncode is None:
            os.kill(self.pid, signal)


def become(order: bytes, fds: list[int]) -> None:
    """The command line, with its three standard files."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    for number, fd in enumerate(fds):
        os.dup2(fd, number)
        os.close(fd)
    arguments, environment = json.loads(order)
    os.environ.clear()
    os.environ.update(environment)
    time.tzset()
    sys.path[:0] = [path for path in environment.get("PYTHONPATH", "").split(os.pathsep) if path]
    try:
        main(arguments)
    finally:
        # As at the exit of a program.
        threading._shutdown()  # type: ignore[attr-defined]
        atexit._run_exitfuncs()


if __name__ == "__main__":
    for name in IMPORTED:
        importlib.import_module(name)
    fork_server.serve(int(sys.argv[1]), become)
