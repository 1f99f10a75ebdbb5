"""Sessions: who may be given jobs, and what becomes of them when a runner goes.

Guarantee: a session has one attachment at a time; no claim commits onto one that has ended or
moved, because a claim holds the row under its own attachment and whoever changes the attachment
waits for it, and then sees its jobs. Ending a session takes its RUNNING jobs back and cancels its
CANCELLING ones in the same transaction; what the runner still reports of them is refused by attempt
and session.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING
from uuid import UUID

from jobmesh_dispatcher.backoff import MAX_CRASHES
from jobmesh_dispatcher.sql import load
from jobmesh_dispatcher.store.claim import QueueName, lock_counts
from jobmesh_dispatcher.store.consequences import give_back_slots, owe_messages
from jobmesh_dispatcher.store.outbox import OutboxMessage
from jobmesh_dispatcher.suspicion import Blame, Passenger, blame

if TYPE_CHECKING:
    from asyncpg import Record

    from jobmesh_dispatcher.database import Connection


NOBODY = Blame(frozenset(), frozenset())


@dataclass(slots=True)
class TakenBack:
    """Jobs that left a session. `ended` tells whether the session was ended by this act."""

    ended: bool = False
    rows: list[Record] = field(default_factory=list)
    messages: list[OutboxMessage] = field(default_factory=list)


async def end_session(
    connection: Connection,
    session_id: UUID,
    attachment: UUID,
    reason: str,
    *,
    counter: int | None = None,
    crashed: bool,
) -> TakenBack:
    """End a session, unless it moved on; `crashed` charges the jobs that had started."""
    slots = await connection.fetchval(load("end_session"), session_id, attachment, counter, reason)
    if slots is None:
        return TakenBack()
    taken = await take_back(connection, session_id, None, crashed=crashed, slots=slots)
    taken.ended = True
    return taken


async def take_back_lacking(
    connection: Connection, session_id: UUID, attachment: UUID, job_ids: Sequence[UUID]
) -> TakenBack | None:
    """Take jobs back that a runner does not have; None if its session has ended or moved on.

    Then another dispatcher may have given it jobs that this one knows nothing of. As long as the
    attachment is held, nobody else gives it any.
    """
    if not await connection.fetch(load("lock_sessions"), [session_id], [attachment]):
        return None
    return await take_back(connection, session_id, job_ids, crashed=False)


async def take_back(
    connection: Connection,
    session_id: UUID,
    job_ids: Sequence[UUID] | None,
    *,
    crashed: bool,
    slots: int = 0,
) -> TakenBack:
    """Take jobs back from a session, all of them by default.

    Requeued, cancelled, or buried if they crashed too often. `slots` are those of the runner.
    """
    await _lock_counted_queues(connection, session_id)
    jobs = await connection.fetch(load("lock_session_jobs"), session_id, job_ids)
    counted: Counter[QueueName] = Counter(
        (job["namespace"], job["queue"]) for job in jobs if job["slot"]
    )
    guilt = _blame(jobs, slots) if crashed else NOBODY
    lost = [job for job in jobs if job["state"] == "RUNNING" and not _poisonous(job, guilt)]
    over = [job for job in jobs if job["state"] == "CANCELLING" or _poisonous(job, guilt)]
    result = TakenBack()
    result.rows = await _requeue(connection, session_id, lost, guilt)
    result.rows += await _bury(connection, over)
    result.messages = await owe_messages(connection, result.rows)
    result.messages += await give_back_slots(connection, counted)
    return result


def _blame(jobs: Sequence[Record], slots: int) -> Blame:
    passengers = [
        Passenger(job["job_id"], job["started"], job["suspect"] > 0, job["claim_time"])
        for job in jobs
    ]
    return blame(passengers, slots)


def _poisonous(job: Record, guilt: Blame) -> bool:
    return job["job_id"] in guilt.charged and job["crashes"] + 1 > MAX_CRASHES


async def _lock_counted_queues(connection: Connection, session_id: UUID) -> None:
    rows = await connection.fetch(load("session_jobs"), session_id)
    await lock_counts(connection, {(row["namespace"], row["queue"]) for row in rows if row["slot"]})


async def _requeue(
    connection: Connection, session_id: UUID, jobs: Sequence[Record], guilt: Blame
) -> list[Record]:
    if not jobs:
        return []
    charged = [job["job_id"] in guilt.charged for job in jobs]
    rows: list[Record] = await connection.fetch(
        load("requeue_lost"),
        session_id,
        [job["job_id"] for job in jobs],
        [job["attempt"] for job in jobs],
        ["CRASHED" if crash else "INTERRUPTED" for crash in charged],
        [int(crash) for crash in charged],
        [job["job_id"] in guilt.suspected for job in jobs],
    )
    return rows


async def _bury(connection: Connection, jobs: Sequence[Record]) -> list[Record]:
    if not jobs:
        return []
    cancelled = [job["state"] == "CANCELLING" for job in jobs]
    rows: list[Record] = await connection.fetch(
        load("bury_jobs"),
        [job["job_id"] for job in jobs],
        [job["state"] for job in jobs],
        ["CANCELLED" if c else "DEAD" for c in cancelled],
        ["CANCELLED" if c else "CRASHED" for c in cancelled],
        [0 if c else 1 for c in cancelled],
        ["" for _ in jobs],
    )
    return rows
