"""The count of a limited queue's running jobs: how it begins, and how it is put right.

The order is what makes it exact. The queue's row is locked by the caller, so no job is claimed
meanwhile; jobs may leave RUNNING at any time, and give their slot back under the lock of the count.

1. The count is locked. Who had it has committed; who comes later waits.
2. Jobs that do not count yet are marked. One that is just leaving is waited for, and then is gone.
3. The marked jobs are counted, in a statement of its own, whose snapshot is later than both. A job
   that has left, uncommitted, still counts: its leaving waits for the count, to take it off.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from jobmesh_dispatcher.sql import load

if TYPE_CHECKING:
    from jobmesh_dispatcher.database import Connection


async def count_running(connection: Connection, namespace: str, queue: str) -> int:
    """Let every running job of the queue count, and count them; the caller has locked the queue."""
    await connection.execute(load("lock_queue_slots"), namespace, queue)
    await connection.execute(load("mark_slots"), namespace, queue)
    running: int = await connection.fetchval(load("recount_slots"), namespace, queue)
    return running
