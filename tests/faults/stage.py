"""A whole mesh of real processes, two of each service."""

from __future__ import annotations

import asyncio
import shutil
import tempfile
from collections.abc import AsyncIterator, Callable, Collection, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from jobmesh.dev.nats import EmbeddedNats
from jobmesh.dev.ports import PortPool
from jobmesh_dispatcher.migrate import migrate
from tests.faults import ledger
from tests.faults.hurt_postgres import HurtPostgres
from tests.faults.plan import LINKS, REPLICAS, SERVICES
from tests.support import leaks
from tests.support.fleet import Fleet, Member, via
from tests.support.proxy import TcpProxy
from tests.support.servers import new_nats

LEASE_SECONDS = 3.0
SETTINGS = {
    "JOBMESH_APP": "tests.faults.handlers:app",
    "JOBMESH_SESSION_LEASE_SECONDS": str(LEASE_SECONDS),
    "JOBMESH_ACK_WAIT_SECONDS": "3",
    "JOBMESH_CANCEL_GRACE_SECONDS": "5",
    "JOBMESH_SLOTS": "32",
}


@dataclass(frozen=True, slots=True)
class Stage:
    """The mesh, what it stands on, and what those of its links pass through that may be hurt."""

    fleet: Fleet
    postgres: HurtPostgres
    nats: EmbeddedNats
    nats_store: Path
    links: Mapping[str, TcpProxy]
    ledger: Path


@asynccontextmanager
async def staged(
    ports: PortPool,
    *,
    clock: bool = False,
    hurt_links: Collection[str] = (),
    settings: Mapping[str, str] | None = None,
    directory: Path | None = None,
) -> AsyncIterator[Stage]:
    """A mesh that serves `tests.faults.handlers`; `settings` go on top of this module's.

    :param hurt_links: of `LINKS`. All others are direct: what goes through this process costs it
        the time that the mesh needs.
    :param directory: keeps logs and data; a temporary one by default.
    """
    root = directory or Path(tempfile.mkdtemp(prefix="jobmesh-faults-"))
    root.chmod(0o711)  # PostgreSQL's account passes through
    async with AsyncExitStack() as stack:
        if directory is None:
            stack.callback(shutil.rmtree, root)
        postgres = HurtPostgres(root / "postgres", ports.take(), clock=clock)
        nats_port = ports.take()
        nats = new_nats(root, nats_port)
        servers = _pids(postgres, nats)
        leaks.shared.append(servers)
        stack.callback(leaks.shared.remove, servers)
        stack.push_async_callback(postgres.stop)
        stack.push_async_callback(nats.stop)
        await asyncio.gather(postgres.start(), nats.start())
        await migrate(postgres.dsn())
        book = root / "ledger"
        own = SETTINGS | {ledger.VARIABLE: str(book)} | dict(settings or {})
        replicas = dict.fromkeys(SERVICES, REPLICAS)
        fleet = Fleet(root, ports, postgres.dsn(), nats, replicas, own)
        links = {
            name: await stack.enter_async_context(TcpProxy("127.0.0.1", port))
            for name, port in _ends(fleet, postgres.port, nats_port).items()
            if name in hurt_links
        }
        _wire(fleet, links)
        await stack.enter_async_context(fleet)
        yield Stage(fleet, postgres, nats, root / "nats" / "store", links, book)


def _pids(postgres: HurtPostgres, nats: EmbeddedNats) -> Callable[[], set[int]]:
    def pids() -> set[int]:
        return {server.child.pid for server in (postgres, nats) if server.child is not None}

    return pids


def _ends(fleet: Fleet, postgres: int, nats: int) -> dict[str, int]:
    """The port that each link leads to."""
    servers = {"postgres": postgres, "nats": nats}
    return {
        link: servers[far] if (far := link.split("/")[1]) in servers else fleet[far].port
        for link in LINKS
    }


def _wire(fleet: Fleet, links: Mapping[str, TcpProxy]) -> None:
    """Lead whoever has one of the links through it."""
    for name, link in links.items():
        near, far = name.split("/")
        if far == "postgres":
            fleet[near].give({"JOBMESH_POSTGRES_DSN": via(fleet.postgres, link.port)})
        elif far == "nats":
            fleet[near].give({"JOBMESH_NATS_URL": f"nats://{link.address}"})
    for member in fleet.of("runner"):
        member.give({"JOBMESH_DISPATCHERS": ",".join(_dispatchers(member, fleet, links))})


def _dispatchers(member: Member, fleet: Fleet, links: Mapping[str, TcpProxy]) -> list[str]:
    ends = [(f"{member.name}/{each.name}", each) for each in fleet.of("dispatcher")]
    return [links[link].address if link in links else each.address for link, each in ends]
