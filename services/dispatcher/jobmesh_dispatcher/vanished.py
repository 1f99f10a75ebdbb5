"""Wake-ups that vanished: the broker lost them, its store was wiped, the stream was deleted.

A job that is ready and not held has a wake-up in the stream, or is about to. So for each queue and
priority the oldest such job is compared with the subject's head: jobs whose wake-up was written 10
s before the head was stored have lost it, and so have all that are older than the stream. Where the
subject is empty, or its consumer has delivered everything and awaits nothing, there is no wake-up
at all, and 10 s of age are enough. All is well: one index probe for each queue and priority. No
cost a job, and at most `limit` jobs a pass.
"""

from __future__ import annotations

import logging
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING

from jobmesh_dispatcher.broker import JOBS
from jobmesh_dispatcher.jetstream_api import created_time, head_of, is_drained
from jobmesh_dispatcher.sql import load
from jobmesh_dispatcher.store.leadership import hold_epoch
from jobmesh_dispatcher.store.outbox import OutboxMessage, Ready, jobs_of, write_wakeups

if TYPE_CHECKING:
    from asyncpg import Record

    from jobmesh_dispatcher.broker import Broker
    from jobmesh_dispatcher.database import Connection, Database

log = logging.getLogger(__name__)

LOST_AFTER_SECONDS = 10.0
# Later than any job: the subject has nothing to compare with, and the statement itself spares the
# young ones.
NOW = datetime(9999, 1, 1, tzinfo=UTC)


async def wake_vanished(
    database: Database, broker: Broker, epoch: int, limit: int
) -> list[OutboxMessage]:
    """Owe the broker new wake-ups for jobs that lost theirs. Raises `BackendUnavailable`."""
    suspects = await database.fetch(load("asleep_queues"), LOST_AFTER_SECONDS)
    if not suspects:
        return []
    await broker.ensure_streams()
    made = await created_time(broker, JOBS)
    messages: list[OutboxMessage] = []
    for row in suspects:
        horizon = await _horizon(broker, row, made)
        if limit > 0 and row["woken_at"] < horizon:
            woken = await database.run(
                partial(_wake, epoch=epoch, row=row, before=horizon, limit=limit)
            )
            limit -= jobs_of(woken)
            messages += woken
    return messages


async def _horizon(broker: Broker, row: Record, made: datetime | None) -> datetime:
    """Jobs of the queue and priority that were woken before this have no wake-up."""
    head = await head_of(broker, JOBS, f"jm.job.{row['token']}.{row['priority']}")
    if head is None or await is_drained(broker, JOBS, f"d-{row['token']}-{row['priority']}"):
        return NOW
    before_head = head.time - timedelta(seconds=LOST_AFTER_SECONDS)
    return max(before_head, made) if made is not None else before_head


async def _wake(
    connection: Connection, *, epoch: int, row: Record, before: datetime, limit: int
) -> list[OutboxMessage]:
    await hold_epoch(connection, epoch)
    rows = await connection.fetch(
        load("wake_again"),
        row["namespace"],
        row["name"],
        row["priority"],
        before,
        LOST_AFTER_SECONDS,
        limit,
    )
    if rows:
        log.warning("%d job(s) of queue %s had lost their wake-up", len(rows), row["name"])
    rows.sort(key=lambda r: r["queued_at"])
    return await write_wakeups(
        connection, [Ready(r["namespace"], r["queue"], r["priority"], r["job_id"]) for r in rows]
    )
