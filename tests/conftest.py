"""Real servers for tests, and the check that a test leaves nothing running."""

from __future__ import annotations

import asyncio
import inspect
import itertools
import shutil
import signal
import tempfile
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import hypothesis
import pytest

from jobmesh.dev.nats import EmbeddedNats
from jobmesh.dev.ports import PortPool
from tests.support import leaks
from tests.support.servers import TestPostgres, new_nats

_numbers = itertools.count(1)

# How long an example takes is the machine's affair.
hypothesis.settings.register_profile("jobmesh", deadline=None)
hypothesis.settings.load_profile("jobmesh")


def pytest_configure() -> None:
    """Let children be interrupted: what a shell runs in the background ignores SIGINT."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


# Files in random order, but spread: beside what computes runs what waits for processes. By when
# each folder is through, as a share of the whole: what takes long, begun last, would run alone.
# What shares a mesh is together and first, so that the mesh ends with it.
THROUGH_BY = {
    "acceptance/one_mesh": 0.0,
    "faults": 0.7,
    "acceptance": 0.8,
    "integration": 0.95,
    "unit": 1.0,
}


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Spread over the whole what was shuffled; a file's tests stay together."""
    folders: dict[str, list[Path]] = {folder: [] for folder in THROUGH_BY}
    for path in dict.fromkeys(item.path for item in items):
        folders[_folder(path)].append(path)
    place = {
        path: (THROUGH_BY[folder] * number / len(paths), number)
        for folder, paths in folders.items()
        for number, path in enumerate(paths, 1)
    }
    items.sort(key=lambda item: (place[item.path], item.path))


def _folder(path: Path) -> str:
    inside = path.relative_to(Path(__file__).parent)
    return next(folder for folder in THROUGH_BY if inside.is_relative_to(folder))


@pytest.fixture(scope="session")
def ports() -> Iterator[PortPool]:
    """Free ports of 127.0.0.1: `ports.take()`."""
    with PortPool() as pool:
        yield pool


@pytest.fixture(scope="session")
def postgres(ports: PortPool) -> Iterator[TestPostgres]:
    """The session's PostgreSQL server (one an xdist worker), with the migrated template."""
    root = Path(tempfile.mkdtemp(prefix="jobmesh-test-"))
    with asyncio.Runner() as runner:
        server = TestPostgres(root / "postgres", ports.take())
        try:
            runner.run(server.start())
            yield server
        finally:
            runner.run(server.stop())
            shutil.rmtree(root)


@pytest.fixture
async def database(postgres: TestPostgres) -> AsyncIterator[str]:
    """DSN of a fresh, migrated database of this test's own."""
    name = f"test_{next(_numbers)}"
    await postgres.clone(name)
    yield postgres.dsn(name)
    await postgres.drop(name)


@pytest.fixture
async def nats_server(ports: PortPool) -> AsyncIterator[EmbeddedNats]:
    """A nats-server of this test's own, with an empty store; may be stopped and started again."""
    root = Path(tempfile.mkdtemp(prefix="jobmesh-test-"))
    server = new_nats(root, ports.take())
    try:
        await server.start()
        yield server
    finally:
        await server.stop()
        shutil.rmtree(root)


@pytest.fixture
def nats_url(nats_server: EmbeddedNats) -> str:
    """URL of this test's own nats-server."""
    return nats_server.url


@pytest.fixture(autouse=True)
def no_leaks(request: pytest.FixtureRequest) -> Iterator[None]:
    """Fails a test that leaves a child process or, if it is async, a task behind."""
    if inspect.iscoroutinefunction(getattr(request.node, "obj", None)):
        request.getfixturevalue("no_leaked_tasks")
    before = leaks.children()
    yield
    leaked = leaks.children() - before
    assert not leaked, f"processes left running: {leaks.describe(leaked)}"


@pytest.fixture
async def no_leaked_tasks() -> AsyncIterator[None]:
    before = asyncio.all_tasks()
    yield
    await leaks.require_no_tasks_beside(before)
