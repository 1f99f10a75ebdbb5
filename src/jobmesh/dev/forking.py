"""`jobmesh …` as processes that are forked from one which has imported it all.

What a service imports costs a quarter of a second of processor time, and a mesh has eight of them
on two cores. Their server imports while PostgreSQL starts, and a service that has died is back
without importing anew. What is forked is what the command would be, from its arguments and
environment on. It dies with its server, which ends when whoever wants processes has gone.

Run as a module, this is the server.
"""

from __future__ import annotations

import asyncio
import atexit
import contextlib
import ctypes
import importlib
import json
import os
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence

from setproctitle import setproctitle

from jobmesh.dev.child import Child, Program
from jobmesh.server import fork_server, forked

MAIN = "jobmesh.cli.main"  # by name, as the command line is above us
COMMAND = (sys.executable, "-m", MAIN)
IMPORTED_BY_SERVICES = [
    "jobmesh.cli.services",
    *(f"jobmesh_{name}.main" for name in ("dispatcher", "gateway", "runner", "scheduler")),
]
PR_SET_PDEATHSIG = 1
FORKS = sys.platform == "linux"  # elsewhere nothing would end orphans


class Forks:
    """Starts programs: forks those that are `jobmesh …`, where that makes no difference to them.

    :param module: run as the server; calls :func:`serve`.
    """

    def __init__(self, module: str = __name__) -> None:
        self._server = forked.ForkServer(module)

    def prepare(self) -> None:
        """Have the server import while there is other work to do."""
        if FORKS:
            self._server.prepare()

    async def start(self, program: Program) -> Child:
        """Start it. Call this on a thread that lives as long as the child shall: the main one.

        :raises OSError: it cannot be started.
        """
        if _is_forkable(program):  # on a thread, as the server may have to import first
            return await asyncio.to_thread(self._fork, program)
        return await Child.start(program)

    def _fork(self, program: Program) -> Child:
        with _files_of(program) as files:
            return Child(program, self.fork(program, files))

    def fork(self, program: Program, files: Sequence[int]) -> ForkedProcess:
        """Fork it, with these three standard files in place of its log. Of any thread."""
        order = {
            "arguments": program.command[len(COMMAND) :],
            "environment": dict(_environment_of(program)),
            "orphan_signal": program.orphan_signal,
            "title": f"jobmesh {program.name}",
        }
        return ForkedProcess(self._server.fork(json.dumps(order).encode(), files))

    def close(self) -> None:
        """End the server, and so what it has forked that still runs."""
        self._server.close()


class ForkedProcess:
    """Such a process, as asyncio would show it."""

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


def serve(modules: Sequence[str]) -> None:
    """Be the server, having imported these."""
    for name in (MAIN, *modules):
        importlib.import_module(name)
    fork_server.serve(int(sys.argv[1]), _Become(os.getpid()))


class _Become:
    def __init__(self, server: int) -> None:
        self._server = server

    def __call__(self, payload: bytes, files: list[int]) -> None:
        """The command line, with its three standard files."""
        order = json.loads(payload)
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, order["orphan_signal"])
        if os.getppid() != self._server:
            sys.exit("the fork server has gone")
        setproctitle(order["title"])
        for number, file in enumerate(files):
            os.dup2(file, number)
            os.close(file)
        sys.stdout.reconfigure(line_buffering=True)  # type: ignore[union-attr]
        _live_in(order["environment"])
        try:
            importlib.import_module(MAIN).main(order["arguments"])
        finally:
            # As at the exit of a program.
            threading._shutdown()  # type: ignore[attr-defined]
            atexit._run_exitfuncs()


def _live_in(environment: dict[str, str]) -> None:
    os.environ.clear()
    os.environ.update(environment)
    time.tzset()
    own = [path for path in environment.get("PYTHONPATH", "").split(os.pathsep) if path]
    sys.path[:0] = [path for path in own if path not in sys.path]


def _is_forkable(program: Program) -> bool:
    """A loader's library has to be there before the interpreter."""
    return (
        FORKS
        and program.command[: len(COMMAND)] == COMMAND
        and program.directory is None
        and program.account is None
        and _environment_of(program).get("LD_PRELOAD") == os.environ.get("LD_PRELOAD")
    )


def _environment_of(program: Program) -> Mapping[str, str]:
    return os.environ if program.environment is None else program.environment


@contextlib.contextmanager
def _files_of(program: Program) -> Iterator[Sequence[int]]:
    with contextlib.ExitStack() as stack:
        nothing = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
        stack.callback(os.close, nothing)
        log = program.open_log()
        stack.callback(os.close, log)
        yield nothing, log, log


if __name__ == "__main__":
    serve(IMPORTED_BY_SERVICES)
