"""What follows from a change of jobs' states, in the same transaction.

Messages owed to the broker, slots given back, holds ended.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING

from jobmesh_dispatcher.queue_token import queue_token
from jobmesh_dispatcher.sql import load
from jobmesh_dispatcher.store.claim import QueueName, add_slots, lock_slots
from jobmesh_dispatcher.store.dead_letters import dead_letter
from jobmesh_dispatcher.store.outbox import OutboxMessage, Ready, write_messages, write_wakeups
from jobmesh_dispatcher.store.release import release_held

if TYPE_CHECKING:
    from asyncpg import Record

    from jobmesh_dispatcher.database import Connection


async def owe_messages(connection: Connection, rows: Sequence[Record]) -> list[OutboxMessage]:
    """Wake-ups for the jobs that became QUEUED, and dead letters for those that died."""
    ready = [
        Ready(row["namespace"], row["queue"], row["priority"], row["job_id"])
        for row in rows
        if row["state"] == "QUEUED"
    ]
    messages = await write_wakeups(connection, ready)
    messages += await write_messages(
        connection, [dead_letter(row) for row in rows if row["state"] == "DEAD"]
    )
    return messages


async def give_back_slots(
    connection: Connection, counted: Counter[QueueName]
) -> list[OutboxMessage]:
    """Give back the slots of jobs that left RUNNING or CANCELLING, and wake as many held jobs of
    their queues.
    """
    if not counted:
        return []
    await lock_slots(connection, sorted(counted))
    await add_slots(connection, Counter({queue: -number for queue, number in counted.items()}))
    queues = await connection.fetch(
        load("share_queues"), [queue_token(*queue) for queue in counted]
    )
    messages: list[OutboxMessage] = []
    for row in queues:
        if not row["dispatch_paused"]:
            number = counted[row["namespace"], row["name"]]
            messages += await release_held(
                connection, row["namespace"], row["name"], "MAX_RUNNING", number
            )
    return messages
