"""Ending holds.

Those whose wait weighs most go first, through the outbox like every job that becomes ready: by age
and priority (see `jobmesh.urgency`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from jobmesh_dispatcher.sql import load
from jobmesh_dispatcher.store.outbox import OutboxMessage, Ready, write_wakeups

if TYPE_CHECKING:
    from jobmesh_dispatcher.database import Connection

RELEASED_AT_ONCE = 5000


async def release_held(
    connection: Connection,
    namespace: str,
    queue: str,
    reason: str,
    limit: int = RELEASED_AT_ONCE,
) -> list[OutboxMessage]:
    """End the hold of jobs of a queue that are held for `reason`, at most `limit` of them."""
    rows = await connection.fetch(load("lock_held"), namespace, queue, reason, limit)
    if not rows:
        return []
    await connection.execute(load("release_jobs"), [row["job_id"] for row in rows])
    return await write_wakeups(
        connection,
        [Ready(row["namespace"], row["queue"], row["priority"], row["job_id"]) for row in rows],
    )
