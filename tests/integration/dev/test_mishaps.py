"""What goes wrong around `jobmesh dev` and is no reason to end the whole mesh."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import asyncpg
import pytest

from jobmesh.dev import postgres
from jobmesh.dev.directory import DataDirectory
from jobmesh.dev.options import DevOptions
from jobmesh.dev.ports import PortPool
from jobmesh.dev.postgres import EmbeddedPostgres
from jobmesh.dev.supervisor import Supervisor
from tests.support.mesh import START_TIMEOUT, DevMesh
from tests.support.tiny_dev import TINY
from tests.support.wait import until


@pytest.fixture
async def dev(tmp_path: Path) -> AsyncIterator[DevMesh]:
    async with DevMesh(tmp_path, ("tests.support.tiny_dev",)) as mesh:
        yield mesh


async def test_a_log_that_cannot_be_opened_for_a_while(dev: DevMesh) -> None:
    await dev.start()
    before = await dev.ready()
    log = dev.data / "logs/runner-1.log"
    log.rename(log.with_suffix(".old"))
    log.mkdir()
    os.kill(before["processes"]["runner-1"], signal.SIGKILL)
    await until(lambda: "runner-1: cannot be started: " in dev.said(), describe=dev.said)
    log.rmdir()
    await dev.serves_again("runner-1", before["processes"]["runner-1"])
    assert dev.pid("gateway-1") == before["processes"]["gateway-1"]


async def test_a_ready_file_that_cannot_be_renewed(dev: DevMesh) -> None:
    child = await dev.start()
    before = await dev.ready()
    (dev.data / "ready.json").unlink()
    (dev.data / "ready.json/in the way").mkdir(parents=True)
    os.kill(before["processes"]["runner-1"], signal.SIGKILL)
    await dev.serves_again("runner-1", before["processes"]["runner-1"])
    await until(lambda: "ready.json cannot be written" in dev.said(), describe=dev.said)
    assert await child.stop((signal.SIGTERM, 20)) == 0
    assert "Traceback" not in dev.said()
    assert "jobmesh has stopped" in dev.said()
    assert "database system is shut down" in dev.log("postgres")


async def test_a_ready_file_that_cannot_be_put_at_first(dev: DevMesh) -> None:
    (dev.ready_file / "in the way").mkdir(parents=True)
    child = await dev.start()
    assert await asyncio.wait_for(child.wait(), START_TIMEOUT) == 2
    assert f"jobmesh dev: {dev.ready_file} cannot be removed: " in dev.said()
    assert "Traceback" not in dev.said()


class Requests:
    """Requests to stop, and a mesh to ask."""

    def __init__(self, directory: Path, ports: PortPool) -> None:
        self.asked, self.again = asyncio.Event(), asyncio.Event()
        data = DataDirectory(directory)
        data.prepare()
        self.data = data
        self.supervisor = Supervisor(
            DevOptions(data=str(directory), port=0),
            data,
            ports,
            lambda content: None,
            command=lambda service: (sys.executable, TINY, service),
        )

    async def run(self) -> None:
        await asyncio.wait_for(self.supervisor.run(self.asked, self.again), START_TIMEOUT)


@pytest.fixture
def requests(tmp_path: Path, ports: PortPool) -> Requests:
    return Requests(tmp_path / "data", ports)


async def test_a_stop_before_the_first_database_is_made_is_a_clean_one(
    requests: Requests, monkeypatch: pytest.MonkeyPatch
) -> None:
    ensure = EmbeddedPostgres.ensure_database

    async def after_the_stop(server: EmbeddedPostgres, name: str) -> None:
        requests.asked.set()
        assert server.child is not None
        await server.child.wait()
        await ensure(server, name)

    monkeypatch.setattr(EmbeddedPostgres, "ensure_database", after_the_stop)
    await requests.run()
    assert "database system is shut down" in requests.data.log("postgres").read_text()


async def test_a_stop_while_the_second_database_is_made_is_a_clean_one(
    requests: Requests, monkeypatch: pytest.MonkeyPatch
) -> None:
    make = postgres._ensure_database

    async def in_vain(connection: asyncpg.Connection, name: str) -> None:
        if name == postgres.DATABASE:
            return await make(connection, name)
        requests.asked.set()
        try:
            await asyncio.Event().wait()
        finally:  # what the driver says of a server that has gone, in place of the cancellation
            raise ConnectionError("connection lost")

    monkeypatch.setattr(postgres, "_ensure_database", in_vain)
    await requests.run()
