"""How much waits: numbers for metrics.

They cost one pass over the live jobs (0.3 s a million), so the caller keeps them for a while.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from jobmesh_dispatcher.sql import load

if TYPE_CHECKING:
    from jobmesh_dispatcher.database import Connection


class StateDepth(NamedTuple):
    """Jobs of a queue in one state; `hold_reason` is empty for those that nothing holds.

    `oldest_seconds` is since when the oldest has been QUEUED, 0 in other states.
    """

    namespace: str
    queue: str
    state: str
    hold_reason: str
    jobs: int
    oldest_seconds: float


class OutboxDepth(NamedTuple):
    """Messages that are owed to the broker, and how long the oldest has been."""

    messages: int
    oldest_seconds: float


async def measure_queues(connection: Connection) -> list[StateDepth]:
    """The jobs of all queues by state; a queue without live jobs is left out."""
    return [
        StateDepth(
            row["namespace"],
            row["queue"],
            row["state"],
            row["hold_reason"] or "",
            row["jobs"],
            max(0.0, row["oldest_seconds"] or 0.0),
        )
        for row in await connection.fetch(load("count_jobs"), None)
    ]


async def measure_outbox(connection: Connection) -> OutboxDepth:
    """What the outbox holds."""
    row = await connection.fetchrow(load("measure_outbox"))
    assert row is not None
    return OutboxDepth(row["messages"], max(0.0, row["oldest_seconds"]))
