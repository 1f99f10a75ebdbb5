"""`jobmesh dev` as a process, for tests of the whole mesh."""

from __future__ import annotations

import json
import os
import signal
import sys
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from jobmesh.dev.child import Child, Program
from tests.support.process import clean_environment
from tests.support.wait import until

REPOSITORY = Path(__file__).parents[2]
START_TIMEOUT = 60.0
STOP_GRACE = 50.0
JOBMESH = ("jobmesh.cli.main", "dev")


class DevMesh:
    """A mesh of its own on free ports; `directory` holds its data, ready file and output.

        async with DevMesh(tmp_path) as mesh:
            await mesh.start("--app", "tests.acceptance.app:app", "--gateways", "2")
            await mesh.ready()
            jobmesh.connect(mesh.gateway)

    :param module: what is run in place of `jobmesh dev`, for tests of the supervisor itself.
    """

    def __init__(self, directory: Path, module: tuple[str, ...] = JOBMESH) -> None:
        self.data = directory / "data"
        self.ready_file = directory / "ready.json"
        self.output = directory / "output.log"
        self.child: Child | None = None
        self._module = module

    async def start(self, *options: str, port: int = 0, **environment: str) -> Child:
        """Start it; not ready yet."""
        own = ("--data", str(self.data), "--ready-file", str(self.ready_file), "--port", str(port))
        self.child = await Child.start(
            Program(
                name="jobmesh dev",
                command=(sys.executable, "-m", *self._module, *own, *options),
                log=self.output,
                directory=REPOSITORY,
                environment=clean_environment() | environment,
                orphan_signal=signal.SIGTERM,
            )
        )
        return self.child

    async def ready(self) -> dict[str, Any]:
        """Wait until all of it serves; the content of its ready file."""

        def there() -> bool:
            assert self.child is not None
            self.child.require_running()
            return self.ready_file.exists()

        await until(there, START_TIMEOUT, self.said)
        return self.content()

    async def stop(self) -> int:
        """Stop it in its orderly way; the exit code."""
        assert self.child is not None
        return await self.child.stop((signal.SIGTERM, STOP_GRACE))

    def content(self) -> dict[str, Any]:
        """What the ready file says now."""
        content: dict[str, Any] = json.loads(self.ready_file.read_text())
        return content

    @property
    def gateway(self) -> str:
        """Address of the first gateway."""
        return str(self.content()["gateway"][0])

    @property
    def postgres(self) -> str:
        """DSN of jobmesh's own database."""
        return str(self.content()["postgres"])

    @property
    def nats(self) -> str:
        """URL of its NATS."""
        return str(self.content()["nats"])

    def pid(self, process: str) -> int:
        """Of a service's process; another one after each restart."""
        return int(self.content()["processes"][process])

    def kill(self, process: str, number: signal.Signals = signal.SIGKILL) -> int:
        """Send a signal to a process; the id it had."""
        pid = self.pid(process)
        os.kill(pid, number)
        return pid

    async def serves_again(self, process: str, before: int, timeout: float = 30.0) -> None:
        """Wait until a process that had the id `before` has been replaced and serves."""
        await until(lambda: self.pid(process) != before, timeout, self.said)

    def said(self) -> str:
        """All that it printed, the logs of its processes included."""
        return self.output.read_text() if self.output.exists() else ""

    def log(self, process: str) -> str:
        """The log of one process, `postgres` and `nats` included."""
        return (self.data / "logs" / f"{process}.log").read_text()

    def server_pids(self) -> set[int]:
        """Of PostgreSQL and NATS."""
        files = [self.data / "postgres/data/postmaster.pid", self.data / "nats/nats.pid"]
        return {int(file.read_text().split()[0]) for file in files if file.exists()}

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self.child is not None:
            await self.child.stop((signal.SIGTERM, STOP_GRACE))
