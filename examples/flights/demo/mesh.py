"""A mesh of its own for the demo: `jobmesh dev` in a fresh directory, on free ports."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit, urlunsplit

from examples.flights.demo.failure import DemoFailed
from jobmesh.dev.child import Child, Program

APP = "examples.flights.app:app"
REPOSITORY = Path(__file__).resolve().parents[3]
START_TIMEOUT = 60.0
STOP_TIMEOUT = 45.0
POLL = 0.05
REPLICAS = {"gateway": 1, "dispatcher": 2, "runner": 2, "scheduler": 1}


@dataclass(frozen=True, slots=True)
class Mesh:
    """The running mesh, as its ready file tells of it."""

    ready_file: Path

    @property
    def gateway(self) -> str:
        return str(self._ready()["gateway"][0])

    @property
    def flights_dsn(self) -> str:
        """The handlers' database, on the server that `jobmesh dev` embeds."""
        return urlunsplit(urlsplit(str(self._ready()["postgres"]))._replace(path="/flights"))

    def pid(self, process: str) -> int:
        """Of a service itself; another one after each restart."""
        processes: dict[str, int] = self._ready()["processes"]
        if process not in processes:
            raise DemoFailed(f"no process {process!r} among {', '.join(processes)}")
        return processes[process]

    def _ready(self) -> dict[str, Any]:
        ready: dict[str, Any] = json.loads(self.ready_file.read_text())
        return ready


@asynccontextmanager
async def running_mesh(directory: Path) -> AsyncIterator[Mesh]:
    """Start it, wait until all of it serves, and stop it whatever happens."""
    mesh = Mesh(directory / "ready.json")
    child = await Child.start(program(directory, mesh.ready_file))
    try:
        await served(child, mesh.ready_file)
        yield mesh
    finally:
        await child.stop((signal.SIGTERM, STOP_TIMEOUT))


def program(directory: Path, ready_file: Path) -> Program:
    jobmesh = str(Path(sys.executable).with_name("jobmesh"))
    replicas = (str(part) for name, n in REPLICAS.items() for part in (f"--{name}s", n))
    command = (jobmesh, "dev", "--app", APP, "--data", str(directory / "mesh"), "--port", "0")
    return Program(
        name="jobmesh dev",
        command=(*command, "--ready-file", str(ready_file), *replicas),
        log=directory / "mesh.log",
        directory=REPOSITORY,
        environment={k: v for k, v in os.environ.items() if not k.startswith("JOBMESH_")},
        orphan_signal=signal.SIGTERM,
    )


async def served(child: Child, ready_file: Path) -> None:
    """The file appears by rename, whole, once every process serves."""
    try:
        async with asyncio.timeout(START_TIMEOUT):
            while not ready_file.exists():
                child.require_running()
                await asyncio.sleep(POLL)
    except TimeoutError:
        raise DemoFailed(f"the mesh did not start in time; see {child.program.log}") from None
