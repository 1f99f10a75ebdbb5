"""A mesh put together process by process, so that a test can give each settings of its own, cut its
links, kill it at a moment of its choice and start it again.
"""

from __future__ import annotations

import asyncio
import dataclasses
import itertools
import json
import os
import tempfile
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar
from urllib.parse import urlsplit

import asyncpg
import nats
from nats.aio.client import Client as Nats

import jobmesh
from jobmesh.dev.nats import EmbeddedNats
from jobmesh.dev.ports import PortPool
from jobmesh.dev.postgres import EmbeddedPostgres, PostgresConfig
from jobmesh_dispatcher.migrate import migrate
from tests.support import leaks, scrape
from tests.support.process import ServiceProcess
from tests.support.servers import TestPostgres, new_nats
from tests.support.wait import until

REPOSITORY = Path(__file__).parents[2]
SERVICES = ("dispatcher", "scheduler", "gateway", "runner")
SQL_TIMEOUT = 10.0
READY_TIMEOUT = 60.0
LINES_SHOWN = 12

_numbers = itertools.count(1)
F = TypeVar("F", bound="Fleet")


class Member(ServiceProcess):
    """One process of a fleet, at the same addresses over all its lives."""

    def __init__(self, service: str, number: int, ports: PortPool, directory: Path) -> None:
        self.name = f"{service}-{number}"
        self.service = service
        self.port = ports.take()
        own = {
            "JOBMESH_HOST": "127.0.0.1",
            "JOBMESH_PORT": str(self.port),
            "JOBMESH_HTTP_PORT": str(ports.take()),
            "PYTHONPATH": os.pathsep.join([str(REPOSITORY), os.environ.get("PYTHONPATH", "")]),
            "PYTHONUNBUFFERED": "1",
        }
        super().__init__(service, own, directory / f"{self.name}.log")

    @property
    def address(self) -> str:
        """Where it serves gRPC."""
        return f"127.0.0.1:{self.port}"

    @property
    def running(self) -> bool:
        """Whether its process is there."""
        return self.child is not None and self.child.exit_code is None

    def give(self, settings: Mapping[str, str]) -> None:
        """Settings for all its lives from now on."""
        self._environment |= settings

    def setting(self, name: str) -> str:
        """What it was given."""
        return self._environment[name]

    async def start(self, **once: str) -> None:
        """Start it; `once` are settings for this life only. Not ready yet."""
        program = dataclasses.replace(self._program, environment=self._environment | once)
        self._program = program
        await super().start()

    async def ready(self, timeout: float = READY_TIMEOUT) -> None:
        await super().ready(timeout)

    async def dead(self, timeout: float = 20.0) -> None:
        """Wait until its process has ended by itself."""
        await until(lambda: not self.running, timeout, lambda: f"{self.name} has ended")

    async def metric(self, name: str, **labels: str) -> float:
        """The sum of its series of that name that have these labels; 0 if there is none."""
        found = await self.metrics(name)
        return sum(value for own, value in found if labels.items() <= own.items())

    async def metrics(self, name: str) -> list[tuple[dict[str, str], float]]:
        """Its series of that name: labels and value."""
        return scrape.series(await scrape.metrics(self.http_address), name)


class Fleet:
    """All processes of a mesh by their names: `fleet["dispatcher-1"]`. NATS and PostgreSQL are
    yours. `settings` are given to all.
    """

    def __init__(
        self,
        directory: Path,
        ports: PortPool,
        postgres: str,
        nats: EmbeddedNats,
        counts: Mapping[str, int],
        settings: Mapping[str, str],
    ) -> None:
        self.directory = directory
        self.postgres = postgres
        self.nats = nats
        self._pool: asyncpg.Pool | None = None
        self.members = {
            member.name: member
            for service in SERVICES
            for number in range(1, counts.get(service, 1) + 1)
            for member in [Member(service, number, ports, directory)]
        }
        for member in self.members.values():
            member.give(self._wiring() | {"JOBMESH_RUNNER_ID": member.name} | dict(settings))

    def _wiring(self) -> dict[str, str]:
        return {
            "JOBMESH_POSTGRES_DSN": self.postgres,
            "JOBMESH_NATS_URL": self.nats.url,
            "JOBMESH_DISPATCHERS": self.addresses("dispatcher"),
            "JOBMESH_SCHEDULERS": self.addresses("scheduler"),
        }

    def __getitem__(self, name: str) -> Member:
        return self.members[name]

    def of(self, service: str) -> list[Member]:
        """All of a service."""
        return [member for member in self.members.values() if member.service == service]

    def addresses(self, service: str) -> str:
        """Of all of a service, separated by commas."""
        return ",".join(member.address for member in self.of(service))

    async def start(self) -> None:
        """Start all, and wait until all serve."""
        # Whoever finds no dispatcher yet tries again a second later.
        dispatchers = self.of("dispatcher")
        await _started(dispatchers)
        await _started(member for member in self.members.values() if member not in dispatchers)

    async def restart(self, *names: str, **once: str) -> None:
        """Kill what still runs of these, start them, and wait until they serve."""
        members = [self.members[name] for name in names]
        await asyncio.gather(*(member.kill() for member in members if member.running))
        await _started(members, **once)

    def client(self, **options: Any) -> jobmesh.Client:
        """A client of all gateways."""
        return jobmesh.connect(self.addresses("gateway"), **options)

    async def fetch(self, statement: str, *arguments: object) -> list[asyncpg.Record]:
        """Rows from jobmesh's database."""
        if self._pool is None:
            self._pool = asyncpg.create_pool(
                self.postgres,
                min_size=0,
                max_size=4,
                timeout=SQL_TIMEOUT,
                command_timeout=SQL_TIMEOUT,
            )
            await self._pool
        rows: list[asyncpg.Record] = await self._pool.fetch(statement, *arguments)
        return rows

    async def value(self, statement: str, *arguments: object) -> Any:
        """The first value of the first row."""
        rows = await self.fetch(statement, *arguments)
        return rows[0][0] if rows else None

    def trouble(self) -> str:
        """The last warnings and errors of every process, for whoever reads a failure."""
        return "\n".join(
            f"--- {member.name}, {'runs' if member.running else 'ended'} ({member.log})\n"
            + "\n".join(_warnings(member.log))
            for member in self.members.values()
        )

    def pids(self) -> set[int]:
        """Of all that belongs to it."""
        children = [member.child for member in self.members.values()]
        return {child.pid for child in (*children, self.nats.child) if child is not None}

    async def __aenter__(self) -> Self:
        leaks.shared.append(self.pids)
        try:
            await self.start()
        except BaseException:
            await self.close()
            raise
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """End all at once."""
        members = [member for member in self.members.values() if member.running]
        await asyncio.gather(*(member.kill() for member in members))
        if self._pool is not None:
            self._pool.terminate()
        leaks.shared.remove(self.pids)


@asynccontextmanager
async def new_fleet(
    postgres: TestPostgres,
    ports: PortPool,
    directory: Path,
    counts: Mapping[str, int],
    settings: Mapping[str, str],
    kind: type[F],
) -> AsyncIterator[F]:
    """A fleet with a database and a NATS of its own, to be started by `async with fleet`.

    :param counts: how many of which service; one each by default.
    """
    name = f"fleet_{next(_numbers)}"
    await postgres.clone(name)
    try:
        async with own_nats(ports) as server:
            yield kind(directory, ports, postgres.dsn(name), server, counts, settings)
    finally:
        await postgres.drop(name)


@asynccontextmanager
async def connected(dsn: str) -> AsyncIterator[asyncpg.Connection]:
    """A connection to PostgreSQL."""
    connection = await asyncpg.connect(dsn, timeout=SQL_TIMEOUT, command_timeout=SQL_TIMEOUT)
    try:
        yield connection
    finally:
        await connection.close(timeout=SQL_TIMEOUT)


@asynccontextmanager
async def plain_nats(url: str) -> AsyncIterator[Nats]:
    """A client of NATS that knows nothing of jobmesh."""
    client = await nats.connect(url, connect_timeout=5, max_reconnect_attempts=-1)
    try:
        yield client
    finally:
        await client.close()


@asynccontextmanager
async def own_nats(ports: PortPool) -> AsyncIterator[EmbeddedNats]:
    """A nats-server that a test may kill."""
    with tempfile.TemporaryDirectory(prefix="jobmesh-test-") as root:
        server = new_nats(Path(root), ports.take())
        try:
            await server.start()
            yield server
        finally:
            await server.stop()


@asynccontextmanager
async def own_postgres(ports: PortPool) -> AsyncIterator[EmbeddedPostgres]:
    """A migrated PostgreSQL that a test may kill: what it has committed is on the disk."""
    with tempfile.TemporaryDirectory(prefix="jobmesh-test-") as root:
        server = EmbeddedPostgres(PostgresConfig(root=Path(root) / "pg", port=ports.take()))

        def pids() -> set[int]:
            return {server.child.pid} if server.child else set()

        leaks.shared.append(pids)
        try:
            await server.start()
            await migrate(server.dsn())
            yield server
        finally:
            await server.stop()
            leaks.shared.remove(pids)


def via(dsn: str, port: int) -> str:
    """The same database by another port."""
    parts = urlsplit(dsn)
    return parts._replace(netloc=f"{parts.netloc.rpartition(':')[0]}:{port}").geturl()


async def _started(members: Iterable[Member], **once: str) -> None:
    async def start(member: Member) -> None:
        await member.start(**once)
        await member.ready()

    await asyncio.gather(*map(start, members))


def _warnings(log: Path) -> Iterable[str]:
    lines = log.read_text(errors="replace").splitlines() if log.exists() else []
    told = [line for line in lines if _is_warning(line)]
    return [line[:2000] for line in told[-LINES_SHOWN:]]


def _is_warning(line: str) -> bool:
    try:
        return str(json.loads(line).get("level", "")).lower() not in ("debug", "info")
    except (ValueError, AttributeError):
        return True
