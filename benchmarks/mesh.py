"""A real mesh for the benchmark: embedded servers, and one process of each service."""

from __future__ import annotations

import asyncio
import os
import shutil
import sys
import tempfile
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks import memory
from jobmesh.dev.child import Program
from jobmesh.dev.nats import EmbeddedNats, NatsConfig
from jobmesh.dev.ports import PortPool
from jobmesh.dev.postgres import EmbeddedPostgres, PostgresConfig
from jobmesh.dev.roster import HOST, Service

READY_TIMEOUT = 60.0
PROBE_INTERVAL = 0.02
SLOTS = "64"
ROOT = str(Path(__file__).parents[1])


@dataclass(slots=True)
class Servers:
    """PostgreSQL and NATS as the embedded mesh has them: durable, on disk."""

    root: Path
    ports: PortPool
    postgres: EmbeddedPostgres
    nats: EmbeddedNats


@contextmanager
def _directory() -> Iterator[Path]:
    root = Path(tempfile.mkdtemp(prefix="jobmesh-bench-"))
    try:
        yield root
    finally:
        shutil.rmtree(root, ignore_errors=True)


@asynccontextmanager
async def servers() -> AsyncIterator[Servers]:
    """Start both in a fresh directory, removed at the end."""
    async with AsyncExitStack() as stack:
        root = stack.enter_context(_directory())
        # PostgreSQL's own account has to pass through.
        root.chmod(0o711)
        ports = stack.enter_context(PortPool())
        postgres = EmbeddedPostgres(PostgresConfig(root=root / "postgres", port=ports.take()))
        nats = EmbeddedNats(NatsConfig(root=root / "nats", port=ports.take()))
        stack.push_async_callback(postgres.stop)
        await postgres.start()
        stack.push_async_callback(nats.stop)
        await nats.start()
        yield Servers(root, ports, postgres, nats)


@dataclass(slots=True)
class Mesh:
    """The services of one mesh; ``peaks`` holds the most memory of each, in bytes."""

    servers: Servers
    gateway: Service
    dispatcher: Service
    scheduler: Service
    peaks: dict[str, int] = field(default_factory=dict)

    @property
    def address(self) -> str:
        """The gateway's."""
        return self.gateway.address

    @property
    def dsn(self) -> str:
        """The database, for questions that only the benchmark asks."""
        return self.servers.postgres.dsn()

    @asynccontextmanager
    async def runner(self) -> AsyncIterator[None]:
        """A runner, ready, with the benchmark's handlers."""
        service = self._equipped("runner")
        async with self._running(service):
            yield

    @asynccontextmanager
    async def _running(self, service: Service) -> AsyncIterator[None]:
        try:
            await service.start()
            await _ready(service)
            yield
            self._note_peak(service)
        finally:
            await service.stop()

    def _note_peak(self, service: Service) -> None:
        assert service.child is not None
        peak = memory.peak_bytes(service.child.pid)
        self.peaks[service.service] = max(peak, self.peaks.get(service.service, 0))

    def _equipped(self, name: str) -> Service:
        ports = self.servers.ports
        service = Service(name, 1, ports.take(), ports.take())
        _equip(self, service)
        return service


@asynccontextmanager
async def mesh(over: Servers) -> AsyncIterator[Mesh]:
    """A migrated database, one gateway, dispatcher and scheduler; runners come and go."""
    gateway, dispatcher, scheduler = (
        Service(name, 1, over.ports.take(), over.ports.take())
        for name in ("gateway", "dispatcher", "scheduler")
    )
    made = Mesh(over, gateway, dispatcher, scheduler)
    async with AsyncExitStack() as stack:
        await _migrate(made.dsn)
        for service in (dispatcher, scheduler, gateway):
            _equip(made, service)
            await stack.enter_async_context(made._running(service))
        yield made


async def _migrate(dsn: str) -> None:
    from jobmesh_dispatcher.migrate import migrate

    await migrate(dsn)


def _equip(made: Mesh, service: Service) -> None:
    service.program = Program(
        name=service.name,
        command=(sys.executable, "-m", "jobmesh.cli.main", service.service),
        log=made.servers.root / f"{service.name}.log",
        environment=_clean() | _settings(made, service),
    )


def _settings(made: Mesh, service: Service) -> dict[str, str]:
    """Everything for everyone: each takes what it knows."""
    return {
        "JOBMESH_HOST": HOST,
        "JOBMESH_PORT": str(service.port),
        "JOBMESH_HTTP_PORT": str(service.http_port),
        "JOBMESH_POSTGRES_DSN": made.dsn,
        "JOBMESH_NATS_URL": made.servers.nats.url,
        "JOBMESH_DISPATCHERS": made.dispatcher.address,
        "JOBMESH_SCHEDULERS": made.scheduler.address,
        "JOBMESH_ADDRESS": made.gateway.address,
        "JOBMESH_APP": "benchmarks.handlers:app",
        "JOBMESH_RUNNER_ID": "bench",
        "JOBMESH_SLOTS": SLOTS,
        "PYTHONPATH": os.pathsep.join(filter(None, (ROOT, os.environ.get("PYTHONPATH")))),
    }


def _clean() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if not name.startswith("JOBMESH_")}


async def _ready(service: Service) -> None:
    assert service.child is not None
    async with asyncio.timeout(READY_TIMEOUT):
        while not await service.serves():
            service.child.require_running()
            await asyncio.sleep(PROBE_INTERVAL)
