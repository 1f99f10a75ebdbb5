"""Metrics of what all dispatchers share.

The depth of queues and the outbox. Each dispatcher measures now and then; any one of them will do.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from jobmesh.server.metrics import gauge
from jobmesh.server.tasks import Periodic
from jobmesh_dispatcher.store.depth import measure_outbox, measure_queues

if TYPE_CHECKING:
    from jobmesh_dispatcher.database import Database

EVERY_SECONDS = 15.0
JOBS = gauge(
    "jobmesh_queue_jobs",
    "Jobs of a queue, by state and hold reason.",
    ["namespace", "queue", "state", "hold_reason"],
)
OLDEST = gauge(
    "jobmesh_queue_oldest_seconds",
    "Since when the oldest job has been ready.",
    ["namespace", "queue"],
)
OUTBOX = gauge("jobmesh_outbox_messages", "Messages owed to the broker.")
OUTBOX_OLDEST = gauge("jobmesh_outbox_oldest_seconds", "How long the oldest message has been owed.")


class DepthMetrics:
    """Measures at intervals."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._periodic = Periodic("depth", EVERY_SECONDS, self._measure, jitter=0.2)

    async def start(self) -> None:
        """Begin to measure."""
        await self._periodic.start()

    async def stop(self) -> None:
        """Stop measuring."""
        await self._periodic.stop()

    async def _measure(self) -> None:
        async with self._database.connection() as connection:
            queues = await measure_queues(connection)
            outbox = await measure_outbox(connection)
        JOBS.clear()
        OLDEST.clear()
        oldest: dict[tuple[str, str], float] = {}
        for depth in queues:
            JOBS.labels(depth.namespace, depth.queue, depth.state, depth.hold_reason).set(
                depth.jobs
            )
            key = depth.namespace, depth.queue
            oldest[key] = max(oldest.get(key, 0.0), depth.oldest_seconds)
        for key, seconds in oldest.items():
            OLDEST.labels(*key).set(seconds)
        OUTBOX.set(outbox.messages)
        OUTBOX_OLDEST.set(outbox.oldest_seconds)
