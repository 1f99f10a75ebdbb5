"""A service run as a real process, so that a test can kill, stop and continue it."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Self

from jobmesh.dev.child import Child, Program
from jobmesh.dev.errors import tail
from jobmesh.dev.forking import COMMAND
from jobmesh.dev.probe import answers_ok
from tests.support.forked import forks
from tests.support.wait import until

STOP_GRACE = 40.0


class ServiceProcess:
    """`jobmesh <service>` as a child that dies with the test (see `forked`), or another `command`.

    `environment` is added to a clean one: no JOBMESH_ variable of the caller gets in. Its HTTP port
    is taken from JOBMESH_HTTP_PORT, its output goes to `log`.
    """

    def __init__(
        self,
        service: str,
        environment: Mapping[str, str],
        log: Path,
        command: tuple[str, ...] | None = None,
    ) -> None:
        self.log = log
        self._environment = clean_environment() | dict(environment)
        self._program = Program(
            name=service,
            command=command or (*COMMAND, service),
            log=log,
            environment=self._environment,
        )
        self.child: Child | None = None

    @property
    def pid(self) -> int:
        return self._running.pid

    @property
    def http_address(self) -> str:
        return f"127.0.0.1:{self._environment['JOBMESH_HTTP_PORT']}"

    async def start(self) -> None:
        self.child = await forks.start(self._program)

    async def ready(self, timeout: float = 30.0) -> None:
        """Wait until /readyz answers 200; fails at once, with its log, if the process ends."""
        await until(
            self.serves, timeout, lambda: f"{self._program.name} is ready; {tail(self.log)}"
        )

    async def serves(self) -> bool:
        """Whether /readyz answers 200 now; fails, with its log, if the process has ended."""
        self._running.require_running()
        return await answers_ok(self.http_address, "/readyz")

    async def kill(self) -> None:
        """SIGKILL, and wait until it is gone."""
        self._running.kill()
        await self._running.wait()

    async def terminate(self, grace: float = STOP_GRACE) -> int:
        """SIGTERM; the exit code. Killed after `grace` seconds."""
        return await self._running.stop((signal.SIGTERM, grace))

    def freeze(self) -> None:
        self._running.send(signal.SIGSTOP)

    def thaw(self) -> None:
        self._running.send(signal.SIGCONT)

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self.child is not None:
            # Without a stop in order: a test that is about one asks for it.
            await asyncio.shield(self.child.stop())

    @property
    def _running(self) -> Child:
        assert self.child is not None, "start it first"
        return self.child


def clean_environment() -> dict[str, str]:
    """Ours without what would configure a service or a tracer by accident."""
    prefixes = ("JOBMESH_", "OTEL_", "GRPC_", "PG")
    return {name: value for name, value in os.environ.items() if not name.startswith(prefixes)}
