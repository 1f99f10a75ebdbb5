"""Draining a backlog: every job claimed, run and finished, as the database's clock saw it."""

from __future__ import annotations

import asyncio

import asyncpg

LEFT = "SELECT count(*) FROM jobmesh.jobs_live"
UNPUBLISHED = "SELECT count(*) FROM jobmesh.outbox"
# Of jobs that ended since the mark; the claim of the first to the end of the last.
DRAINED = """
SELECT count(*) AS jobs,
       count(*) FILTER (WHERE state = 'SUCCEEDED') AS succeeded,
       extract(epoch FROM max(end_time) - min(claim_time))::float8 AS seconds
FROM jobmesh.jobs_history
WHERE end_time > $1
"""
POLL = 0.1


async def ready_backlog(connection: asyncpg.Connection, timeout: float) -> int:
    """Wait until every wake-up is published; how many jobs wait."""
    async with asyncio.timeout(timeout):
        while await connection.fetchval(UNPUBLISHED):  # noqa: ASYNC110 - only a query can tell
            await asyncio.sleep(POLL)
    return int(await connection.fetchval(LEFT))


async def empty(connection: asyncpg.Connection, timeout: float) -> None:
    """Wait until no job is left."""
    async with asyncio.timeout(timeout):
        while await connection.fetchval(LEFT):  # noqa: ASYNC110
            await asyncio.sleep(POLL)


async def rate_since(connection: asyncpg.Connection, mark: object, jobs: int) -> float:
    """Jobs a second, of those that ended after ``mark``."""
    row = await connection.fetchrow(DRAINED, mark)
    assert row is not None
    if (row["jobs"], row["succeeded"]) != (jobs, jobs):
        raise RuntimeError(f"{row['succeeded']} of {jobs} jobs succeeded, {row['jobs']} ended")
    return jobs / float(row["seconds"])
