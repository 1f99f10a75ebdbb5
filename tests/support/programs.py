"""Programs run from a test to their end."""

from __future__ import annotations

import asyncio
import sys
from asyncio.subprocess import DEVNULL, PIPE
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from tests.support import forked
from tests.support.process import clean_environment

REPOSITORY = Path(__file__).parents[2]
PROGRAMS = Path(sys.executable).parent
TIMEOUT = 60.0


@dataclass(frozen=True, slots=True)
class Done:
    """How a program ended, and what it printed."""

    code: int
    output: str
    errors: str

    def succeeded(self) -> str:
        """Its output; fails unless the program ended well."""
        assert self.code == 0, self
        return self.output


async def run(*command: str, environment: Mapping[str, str] | None = None) -> Done:
    """Run a program, one of the environment's own if its name has no path."""
    program = str(PROGRAMS / command[0]) if "/" not in command[0] else command[0]
    process = await asyncio.create_subprocess_exec(
        *(program, *command[1:]),
        cwd=REPOSITORY,
        env=clean_environment() | dict(environment or {}),
        stdin=DEVNULL,
        stdout=PIPE,
        stderr=PIPE,
    )
    try:
        output, errors = await asyncio.wait_for(process.communicate(), TIMEOUT)
    except BaseException:
        process.kill()
        await process.wait()
        raise
    assert process.returncode is not None
    return Done(process.returncode, output.decode(), errors.decode())


async def jobmesh(address: str, *arguments: str) -> Done:
    """Run the command line against the gateway at an address."""
    environment = clean_environment() | {"JOBMESH_ADDRESS": address}
    return Done(*await forked.run(arguments, environment, "", TIMEOUT))
