"""The handlers' own database, which has nothing to do with that of jobmesh."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import cache
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

import asyncpg

SQL = Path(__file__).parent / "sql"
MAINTENANCE = "postgres"
TIMEOUT = 30.0
"""Seconds for connecting, and for any one statement."""
SCHEMA_LOCK = 0x464C49474854
"""Any number that only this example uses: `CREATE IF NOT EXISTS` is not safe against itself."""

Connection = asyncpg.Connection


class NoDatabase(RuntimeError):
    """FLIGHTS_DSN is not set."""


def dsn_from_environment() -> str:
    try:
        return os.environ["FLIGHTS_DSN"]
    except KeyError:
        raise NoDatabase("set FLIGHTS_DSN, as postgresql://user@host:port/flights") from None


@asynccontextmanager
async def connected(dsn: str) -> AsyncIterator[Connection]:
    """A connection to the database, which is made with its tables if it is not there."""
    try:
        connection = await connect(dsn)
    except asyncpg.InvalidCatalogNameError:
        await create_database(dsn)
        connection = await connect(dsn)
    try:
        await create_tables(connection)
        yield connection
    finally:
        await connection.close(timeout=TIMEOUT)


async def connect(dsn: str) -> Connection:
    connection: Connection = await asyncpg.connect(dsn, timeout=TIMEOUT, command_timeout=TIMEOUT)
    return connection


async def create_database(dsn: str) -> None:
    parts = urlsplit(dsn)
    name = parts.path.lstrip("/").replace('"', '""')
    connection = await connect(urlunsplit(parts._replace(path=f"/{MAINTENANCE}")))
    try:
        await connection.execute(f'CREATE DATABASE "{name}"')
    except (asyncpg.DuplicateDatabaseError, asyncpg.UniqueViolationError):
        pass  # another handler was quicker
    finally:
        await connection.close(timeout=TIMEOUT)


async def create_tables(connection: Connection) -> None:
    async with connection.transaction():
        await connection.execute("SELECT pg_advisory_xact_lock($1)", SCHEMA_LOCK)
        await connection.execute(statement("schema"))


@cache
def statement(name: str) -> str:
    """The SQL in ``sql/<name>.sql``."""
    return (SQL / f"{name}.sql").read_text(encoding="utf-8")
