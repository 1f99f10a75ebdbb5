"""Real servers for tests, and the check that a test leaves nothing running."""

from __future__ import annotations

import asyncio
import inspect
import itertools
import os
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

MEMORY = Path("/dev/shm")
ROOM = 6 << 30


def use_memory() -> None:
    """Put all that tests write into memory, where there is room for it.

    A database is a thousand files. ext4 looks at each inode that was freed within the last seconds
    before it takes another, and tests that make and drop databases spent a sixth of all processor
    time there.
    """
    if "TMPDIR" not in os.environ and os.access(MEMORY, os.W_OK) and _is_fit(MEMORY):
        os.environ["TMPDIR"] = str(MEMORY)
        tempfile.tempdir = None  # asked for anew


def _is_fit(place: Path) -> bool:
    """Whether there is room, and programs may lie there, as those of an environment."""
    found = os.statvfs(place)
    return found.f_bavail * found.f_frsize >= ROOM and not found.f_flag & os.ST_NOEXEC


use_memory()

# How long an example takes is the machine's affair.
hypothesis.settings.register_profile("jobmesh", deadline=None)
hypothesis.settings.load_profile("jobmesh")


def pytest_configure() -> None:
    """Let children be interrupted: what a shell runs in the background ignores SIGINT."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


# In random order within each, but what takes longest first: begun last, it would run alone. What
# shares a mesh is together, so that the mesh ends with it.
LONGEST_FIRST = ("acceptance/one_mesh", "faults", "acceptance", "integration", "unit")


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Sort by folder what was shuffled."""
    here = Path(__file__).parent

    def place(item: pytest.Item) -> int:
        path = item.path.relative_to(here)
        return next(n for n, each in enumerate(LONGEST_FIRST) if path.is_relative_to(each))

    items.sort(key=place)


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
