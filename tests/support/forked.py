"""`jobmesh <service>` as a process that is forked from one that has imported it all.

Most of what a service costs at its start is half a second of imports, and the tests start hundreds.
What is forked is the process that the command would be, from its arguments and environment on.
Tests of the commands themselves, of `jobmesh dev` and of what `deploy/` starts run what a user
would. Run as a module, this is the process that is forked.
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
from collections.abc import Sequence

from jobmesh.cli.main import main
from jobmesh.dev.child import Child, Program
from jobmesh.server import fork_server, forked

IMPORTED = [
    "jobmesh.cli.services",
    *(f"jobmesh_{name}.main" for name in ("dispatcher", "gateway", "runner", "scheduler")),
]
PR_SET_PDEATHSIG = 1

server = forked.ForkServer(__name__)


def start(program: Program, arguments: Sequence[str]) -> Child:
    """Start `program` by forking: these are what its command says behind `jobmesh`."""
    order = json.dumps([arguments, dict(program.environment or {})]).encode()
    log = os.open(program.log, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
    try:
        return Child(program, AsyncForked(server.fork(order, [log])))
    finally:
        os.close(log)


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
    """The command line, with its output to the one descriptor."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    (log,) = fds
    os.dup2(log, sys.stdout.fileno())
    os.dup2(log, sys.stderr.fileno())
    os.close(log)
    arguments, environment = json.loads(order)
    os.environ.clear()
    os.environ.update(environment)
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
