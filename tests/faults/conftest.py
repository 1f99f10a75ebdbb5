"""The mesh that the tests of a module share: whole, in real processes, and hurt by each of them."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from jobmesh.dev.ports import PortPool
from tests.faults import handlers
from tests.faults.chaos import Timeline
from tests.faults.rows import Bench
from tests.faults.stage import staged


@pytest.fixture(scope="module")
def settings() -> dict[str, str]:
    """Of all processes; a module may have its own."""
    return {}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def shared(ports: PortPool, settings: dict[str, str]) -> AsyncIterator[Bench]:
    """A mesh with two of each service."""
    async with (
        staged(ports, clock=True, settings=settings) as stage,
        stage.fleet.client() as mesh,
    ):
        await mesh.queues.update(handlers.LIMITED, max_running=handlers.LIMIT)
        yield Bench(stage, mesh)


@pytest_asyncio.fixture(loop_scope="module")
async def bench(shared: Bench) -> AsyncIterator[Bench]:
    """All of it serves; and afterwards nothing of the whole history is wrong."""
    await shared.serving(*shared.stage.fleet.members.values())
    try:
        yield shared
    finally:
        shared.thaw()  # what a test that failed has left frozen, for the others' sake
    await shared.serving(*shared.stage.fleet.members.values())
    await shared.require_right(Timeline())
