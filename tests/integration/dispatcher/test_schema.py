"""The schema that the migrations make, and that they can be undone."""

from __future__ import annotations

import re

from jobmesh_dispatcher.migrate import MIGRATIONS, migrate
from tests.support.job_rows import Connection

FILES = sorted(MIGRATIONS.glob("*.sql"))
ENDED_ONLY = {"result", "result_type", "end_time"}
# How jobs are dispatched is no concern of whoever reads them.
INTERNAL = {"woken_at", "slot", "deadline", "expire_at", "suspect", "suspect_seconds", "steps"}
MEASURED = {"basic_bytes", "further_bytes"}


async def columns(connection: Connection, table: str) -> dict[str, tuple[str, str | None, str]]:
    rows = await connection.fetch(
        """SELECT column_name, data_type, column_default, is_nullable
           FROM information_schema.columns WHERE table_schema = 'jobmesh' AND table_name = $1""",
        table,
    )
    return {
        row["column_name"]: (row["data_type"], row["column_default"], row["is_nullable"])
        for row in rows
    }


async def test_history_has_the_columns_of_live_jobs(connection: Connection) -> None:
    live = await columns(connection, "jobs_live")
    ended = await columns(connection, "jobs_history")
    assert set(ended) - set(live) == ENDED_ONLY
    assert {name: ended[name] for name in live} == live


async def test_the_view_has_all_that_is_read(connection: Connection) -> None:
    ended = await columns(connection, "jobs_history")
    view = await columns(connection, "jobs")
    assert set(view) == (set(ended) - INTERNAL) | MEASURED


async def test_a_migration_can_be_undone_and_done_again(
    connection: Connection, database: str
) -> None:
    for file in reversed(FILES):
        up, down = re.split(r"^-- migrate:down$", file.read_text("utf-8"), flags=re.MULTILINE)
        assert up.startswith("-- migrate:up\n")
        await connection.execute(down)
    left = await connection.fetchval("SELECT to_regnamespace('jobmesh')::text")
    assert left is None
    await connection.execute("TRUNCATE public.jobmesh_migrations")
    await migrate(database)
    applied = await connection.fetch("SELECT version FROM public.jobmesh_migrations ORDER BY 1")
    assert [row["version"] for row in applied] == [file.name.split("_")[0] for file in FILES]
    assert await columns(connection, "jobs")
