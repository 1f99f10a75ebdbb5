"""Expiry: jobs that wait longer than they should are cancelled.

A job expires when it has not started so long after it became ready, and at its deadline. Whoever
claims jobs looks at it too, so that none starts too late while nobody leads.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING
from uuid import UUID

from jobmesh_dispatcher.sql import load

if TYPE_CHECKING:
    from asyncpg import Record

    from jobmesh_dispatcher.database import Connection


async def expire(connection: Connection, limit: int) -> list[Record]:
    """Cancel at most `limit` jobs that have expired, the longest overdue first; their rows."""
    jobs = await connection.fetch(load("lock_expired"), limit)
    return await bury_expired(connection, [(job["job_id"], job["state"]) for job in jobs])


async def bury_expired(connection: Connection, jobs: Sequence[tuple[UUID, str]]) -> list[Record]:
    """Cancel jobs that are locked in these states, as expired; their rows."""
    if not jobs:
        return []
    jobs = sorted(jobs)
    rows: list[Record] = await connection.fetch(
        load("bury_jobs"),
        [job_id for job_id, _ in jobs],
        [state for _, state in jobs],
        ["CANCELLED" for _ in jobs],
        ["EXPIRED" for _ in jobs],
        [0 for _ in jobs],
        ["" for _ in jobs],
    )
    return rows
