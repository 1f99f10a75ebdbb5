"""Migrations: apply once, whoever runs them and however many do."""

from __future__ import annotations

import asyncio
from urllib.parse import urlsplit, urlunsplit

import asyncpg
import pytest

from jobmesh.dev.ports import PortPool
from jobmesh_dispatcher.migrate import MigrationFailed, dbmate_url, migrate


async def test_concurrent_migrations_leave_one_schema(database: str) -> None:
    await asyncio.gather(*(migrate(database) for _ in range(3)))
    connection = await asyncpg.connect(database)
    try:
        applied = await connection.fetchval("SELECT count(*) FROM public.jobmesh_migrations")
        leader = await connection.fetchrow("SELECT * FROM jobmesh.leadership")
    finally:
        await connection.close()
    assert applied >= 1
    assert leader is not None
    assert leader["epoch"] == 0


async def test_a_refusal_is_told_in_the_words_of_dbmate(database: str) -> None:
    await asked(database, "TRUNCATE public.jobmesh_migrations")  # so that all is tried again
    with pytest.raises(MigrationFailed, match="already exists"):
        await migrate(database)


async def test_of_several_hosts_one_that_takes_writes_is_migrated(
    database: str, ports: PortPool
) -> None:
    """As of a cluster whose first host is down; dbmate's driver knows one host."""
    await forget(database)
    parts = urlsplit(database)
    user, at, host = parts.netloc.rpartition("@")
    both = parts._replace(netloc=f"{user}{at}127.0.0.1:{ports.take()},{host}")
    await migrate(urlunsplit(both))
    assert await asked(database, "SELECT count(*) FROM jobmesh.leadership") == 1


async def test_where_no_host_takes_writes_that_is_told(database: str) -> None:
    name = urlsplit(database).path[1:]
    await asked(database, f"ALTER DATABASE {name} SET default_transaction_read_only = on")
    with pytest.raises(MigrationFailed, match="takes writes"):
        await migrate(database)


async def forget(database: str) -> None:
    """Leave the database as it was before its first migration."""
    await asked(database, "DROP SCHEMA jobmesh CASCADE")
    await asked(database, "TRUNCATE public.jobmesh_migrations")


async def asked(database: str, statement: str) -> object:
    connection = await asyncpg.connect(database)
    try:
        return await connection.fetchval(statement)
    finally:
        await connection.close()


def test_the_driver_is_told_not_to_ask_for_encryption() -> None:
    assert dbmate_url("postgresql://u:p@h:1/d") == "postgres://u:p@h:1/d?sslmode=disable"
    assert dbmate_url("postgres://h/d?sslmode=require") == "postgres://h/d?sslmode=require"
