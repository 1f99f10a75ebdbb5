"""The embedded PostgreSQL: started, stopped, killed, and found in odd places."""

from __future__ import annotations

import asyncio
import os
import pwd
import shutil
import signal
import sys
import tempfile
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import asyncpg
import pytest
from asyncpg.exceptions import InvalidPasswordError

from jobmesh.dev.account import CAP_DAC_READ_SEARCH, UNPRIVILEGED, Account
from jobmesh.dev.child import Child, Program
from jobmesh.dev.errors import DevError
from jobmesh.dev.ports import PortPool
from jobmesh.dev.postgres import EmbeddedPostgres, PostgresConfig
from tests.support.wait import until

LIVE = """
import asyncio, sys
from pathlib import Path
from jobmesh.dev.postgres import EmbeddedPostgres, PostgresConfig
async def main():
    config = PostgresConfig(root=Path(sys.argv[1]), port=int(sys.argv[2]), durable=False)
    server = EmbeddedPostgres(config)
    await server.start()
    print("started", server.child.pid, flush=True)
    {then}
asyncio.run(main())
"""


@pytest.fixture
def root() -> Iterator[Path]:
    """A directory that every account may enter, unlike pytest's own."""
    path = Path(tempfile.mkdtemp(prefix="jobmesh-test-"))
    path.chmod(0o755)
    yield path
    shutil.rmtree(path)


@pytest.fixture
async def server(root: Path, ports: PortPool) -> AsyncIterator[EmbeddedPostgres]:
    server = EmbeddedPostgres(
        PostgresConfig(root=root / "postgres", port=ports.take(), durable=False)
    )
    yield server
    await server.stop()


async def ask(server: EmbeddedPostgres, question: str) -> object:
    connection = await asyncpg.connect(server.dsn(), timeout=10)
    try:
        return await connection.fetchval(question)
    finally:
        await connection.close(timeout=5)


async def test_data_outlives_a_stop_and_a_kill(server: EmbeddedPostgres) -> None:
    await server.start()
    await ask(server, "CREATE TABLE kept AS SELECT 1 AS n")
    await server.stop()
    await server.stop()
    await server.start()
    assert await ask(server, "SELECT n FROM kept") == 1
    assert server.child is not None
    server.child.send(signal.SIGKILL)
    await server.child.wait()
    await until(lambda: started(server), 20, "PostgreSQL starts once its old backends have gone")
    assert await ask(server, "SELECT n FROM kept") == 1


async def started(server: EmbeddedPostgres) -> bool:
    try:
        await server.start()
    except DevError as error:
        raise AssertionError(str(error)) from error
    return True


async def test_it_is_durable_unless_told_otherwise(root: Path, ports: PortPool) -> None:
    server = EmbeddedPostgres(PostgresConfig(root=root / "postgres", port=ports.take()))
    await server.start()
    try:
        assert await ask(server, "SHOW fsync") == "on"
        assert await ask(server, "SHOW synchronous_commit") == "on"
        assert await ask(server, "SHOW server_encoding") == "UTF8"
    finally:
        await server.stop()


async def test_nobody_connects_without_the_password(server: EmbeddedPostgres) -> None:
    await server.start()
    dsn = server.dsn()
    wrong = dsn.replace(dsn.split(":")[2].split("@")[0], "guess")
    with pytest.raises(InvalidPasswordError):
        await asyncpg.connect(wrong, timeout=10)


async def test_a_taken_port_is_told_with_the_log(server: EmbeddedPostgres, root: Path) -> None:
    await server.start()
    port = int(server.dsn().rsplit(":", 1)[1].split("/")[0])
    second = EmbeddedPostgres(PostgresConfig(root=root / "second", port=port, durable=False))
    try:
        with pytest.raises(DevError, match="Address already in use"):
            await second.start()
    finally:
        await second.stop()


async def test_a_stale_file_that_names_a_stranger_is_no_obstacle(
    server: EmbeddedPostgres, root: Path
) -> None:
    await server.start()
    await server.stop()
    stale = root / "postgres" / "data" / "postmaster.pid"
    stale.write_text(f"{os.getpid()}\n{stale.parent}\n0\n5432\n\n127.0.0.1\n  0 0\nready\n")
    await server.start()
    assert await ask(server, "SELECT 1") == 1


async def test_an_interrupted_first_start_is_made_up_for(
    server: EmbeddedPostgres, root: Path
) -> None:
    half = root / "postgres" / "data.new"
    half.mkdir(parents=True)
    (half / "PG_VERSION").write_text("18\n")
    await server.start()
    assert await ask(server, "SELECT 1") == 1


async def test_a_lost_password_is_named(server: EmbeddedPostgres, root: Path) -> None:
    await server.start()
    await server.stop()
    (root / "postgres" / "password").unlink()
    with pytest.raises(DevError, match="password is missing"):
        await server.start()


async def test_a_database_that_cannot_be_made_is_told(server: EmbeddedPostgres) -> None:
    await server.start()
    await server.ensure_database("more")
    await server.ensure_database("more")
    await server.stop()
    with pytest.raises(DevError, match="the database another cannot be made: "):
        await server.ensure_database("another")


async def live(root: Path, port: int, account: Account | None, then: str) -> Child:
    code = LIVE.format(then=then)
    return await Child.start(
        Program(
            name="live",
            command=(sys.executable, "-c", code, str(root / "postgres"), str(port)),
            log=root / "live.log",
            account=account,
        )
    )


async def test_it_starts_where_only_its_owner_may_go(tmp_path: Path, ports: PortPool) -> None:
    """As under /root, for a root whose PostgreSQL runs as somebody else."""
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o700)
    server = EmbeddedPostgres(
        PostgresConfig(root=closed / "postgres", port=ports.take(), durable=False)
    )
    try:
        await server.start()
        assert await ask(server, "SELECT 1") == 1
        assert closed.stat().st_mode & 0o777 == 0o700
    finally:
        await server.stop()


async def test_an_ordinary_user_can_run_it(root: Path, ports: PortPool) -> None:
    account = None
    if os.geteuid() == 0:
        nobody = pwd.getpwnam(UNPRIVILEGED)
        # The capability is for Python itself, which may lie below /root.
        account = Account(nobody.pw_uid, nobody.pw_gid, CAP_DAC_READ_SEARCH)
        os.chown(root, nobody.pw_uid, nobody.pw_gid)
    child = await live(root, ports.take(), account, "await server.stop(); print('stopped')")
    assert await asyncio.wait_for(child.wait(), 40) == 0, (root / "live.log").read_text()
    assert "stopped" in (root / "live.log").read_text()


async def test_it_shuts_down_when_its_starter_is_killed(root: Path, ports: PortPool) -> None:
    child = await live(root, ports.take(), None, "await asyncio.sleep(60)")
    log = root / "live.log"
    await until(lambda: "started" in log.read_text(), 40, log.read_text)
    child.send(signal.SIGKILL)
    await child.wait()
    own = root / "postgres" / "postgres.log"
    await until(lambda: "database system is shut down" in own.read_text(), 20)
    await until(lambda: not (root / "postgres" / "data" / "postmaster.pid").exists(), 20)
