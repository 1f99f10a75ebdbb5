"""`jobmesh …` as a process that is forked from one that has imported it all.

Most of what a service costs at its start is its imports, and the tests start hundreds.
Tests of starting, of the pages' commands and of what `deploy/` starts run what a user would. Run as
a module, this is the process that is forked, for `jobmesh dev` has its own.
"""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryFile

from jobmesh.cli.commands import COMMANDS
from jobmesh.dev.child import Child, Program
from jobmesh.dev.forking import COMMAND, IMPORTED_BY_SERVICES, Forks, serve

forks = Forks(__name__)


async def run(
    arguments: Sequence[str], environment: Mapping[str, str], given: str, timeout: float
) -> tuple[int, str, str]:
    """Run a command to its end: its exit code, what it printed, and what of errors.

    :param given: its standard input.
    """
    command = Program(
        name=arguments[0] if arguments else "",
        command=(*COMMAND, *arguments),
        log=Path(os.devnull),
        environment=environment,
    )
    with TemporaryFile() as stdin, TemporaryFile() as stdout, TemporaryFile() as stderr:
        stdin.write(given.encode())
        stdin.seek(0)
        process = forks.fork(command, [file.fileno() for file in (stdin, stdout, stderr)])
        try:
            code = await asyncio.wait_for(process.wait(), timeout)
        except BaseException:
            Child(command, process).send(signal.SIGKILL)
            await process.wait()
            raise
        stdout.seek(0)
        stderr.seek(0)
        return code, stdout.read().decode(), stderr.read().decode()


if __name__ == "__main__":
    serve([*IMPORTED_BY_SERVICES, *(entry.path.partition(":")[0] for entry in COMMANDS.values())])
