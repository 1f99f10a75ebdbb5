"""A runner as a real process, and peers for it."""

from __future__ import annotations

import itertools
from collections.abc import AsyncIterator, Callable, Mapping
from pathlib import Path

import pytest

from jobmesh.dev.ports import PortPool
from tests.integration.runner.peer import Peer
from tests.support.process import ServiceProcess

Start = Callable[..., ServiceProcess]


@pytest.fixture
async def peer() -> AsyncIterator[Peer]:
    async with Peer() as one:
        yield one


@pytest.fixture
async def runner(ports: PortPool, tmp_path: Path) -> AsyncIterator[Start]:
    """Makes runners for peers: `await runner(peer, slots=2).start()`."""
    processes: list[ServiceProcess] = []
    numbers = itertools.count(1)

    def make(
        *peers: Peer,
        app: str = "tests.integration.runner.handlers:app",
        beside: Mapping[str, str] | None = None,
        **settings: object,
    ) -> ServiceProcess:
        number = next(numbers)
        environment = {
            "JOBMESH_APP": app,
            "JOBMESH_RUNNER_ID": f"runner-{number}",
            "JOBMESH_DISPATCHERS": ",".join(peer.address for peer in peers),
            "JOBMESH_PORT": str(ports.take()),
            "JOBMESH_HTTP_PORT": str(ports.take()),
            "JOBMESH_DRAIN_GRACE_SECONDS": "1",
            **{f"JOBMESH_{name.upper()}": str(value) for name, value in settings.items()},
            **(beside or {}),
        }
        log = tmp_path / f"runner-{number}.log"
        process = ServiceProcess("runner", environment, log)
        processes.append(process)
        return process

    yield make
    for process in processes:
        await process.__aexit__(None, None, None)
