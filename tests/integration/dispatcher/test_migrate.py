"""Migrations: apply once, whoever runs them and however many do."""

from __future__ import annotations

import asyncio

import asyncpg
import pytest

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
    connection = await asyncpg.connect(database)
    try:
        await connection.execute("TRUNCATE public.jobmesh_migrations")  # so that all is tried again
    finally:
        await connection.close()
    with pytest.raises(MigrationFailed, match="already exists"):
        await migrate(database)


def test_the_driver_is_told_not_to_ask_for_encryption() -> None:
    assert dbmate_url("postgresql://u:p@h:1/d") == "postgres://u:p@h:1/d?sslmode=disable"
    assert dbmate_url("postgres://h/d?sslmode=require") == "postgres://h/d?sslmode=require"
