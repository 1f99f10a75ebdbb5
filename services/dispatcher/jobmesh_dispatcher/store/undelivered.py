"""A wake-up that was delivered as often as allowed, and never acknowledged.

Whoever claimed its jobs died each time.

Guarantee: its entry is in the stream of dead letters, each of its jobs that still waits is charged
a crash and woken again, and one that is past its limit is DEAD with MAX_DELIVER. All of it once for
each message, however often the leader asks: the message's own operation id is stored with it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING
from uuid import UUID

from jobmesh.v1.broker_pb2 import DeadLetter
from jobmesh.v1.job_pb2 import JOB_REASON_MAX_DELIVER
from jobmesh_dispatcher.backoff import MAX_CRASHES
from jobmesh_dispatcher.sql import load
from jobmesh_dispatcher.store.consequences import owe_messages
from jobmesh_dispatcher.store.dead_letters import dead_subject, encode
from jobmesh_dispatcher.store.outbox import OutboxMessage, write_messages

if TYPE_CHECKING:
    from asyncpg import Record

    from jobmesh_dispatcher.database import Connection


async def charge(
    connection: Connection, operation_id: UUID, token: str, job_ids: Sequence[UUID]
) -> tuple[list[Record], list[OutboxMessage]]:
    """Charge the jobs of a wake-up, unless it was done before; the rows of those that died."""
    if not await connection.fetch(load("insert_operations"), [operation_id]):
        return [], []
    queued = await connection.fetch(load("lock_undelivered"), list(job_ids))
    jobs = [job for job in queued if job["hold_reason"] is None]
    dead = [job for job in jobs if job["crashes"] + 1 > MAX_CRASHES]
    spared = [job["job_id"] for job in jobs if job["crashes"] + 1 <= MAX_CRASHES]
    rows: list[Record] = []
    if dead:
        rows = await connection.fetch(load("bury_jobs"), *_burial(dead))
    messages = await owe_messages(connection, rows)
    woken = await connection.fetch(load("charge_undelivered"), spared)
    messages += await owe_messages(connection, woken)
    messages += await write_messages(connection, [_letter(token, job_ids)])
    return rows, messages


def _burial(jobs: Sequence[Record]) -> tuple[list[object], ...]:
    return (
        [job["job_id"] for job in jobs],
        ["QUEUED" for _ in jobs],
        ["DEAD" for _ in jobs],
        ["MAX_DELIVER" for _ in jobs],
        [1 for _ in jobs],
        ["" for _ in jobs],
    )


def _letter(token: str, job_ids: Sequence[UUID]) -> tuple[str, bytes]:
    letter = DeadLetter(
        reason=JOB_REASON_MAX_DELIVER, undelivered_job_ids=[str(job_id) for job_id in job_ids]
    )
    letter.time.GetCurrentTime()
    return dead_subject(token), encode(letter)
