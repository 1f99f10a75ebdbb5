"""Claiming: jobs that are ready become leases of attached runners.

Guarantee: when `claim` has committed, each job that was QUEUED among those named is either RUNNING
under one session and a new attempt, or parked with the reason that holds it, or cancelled because
it has expired; a queue with `max_running` never has more jobs running than that. The order of locks
is the same everywhere: sessions, queues, slots (by name), jobs (by id).

* A session that ended or moved meanwhile gets nothing: its row is taken under its attachment first,
  and whoever ends or moves it has to wait for this transaction, and then sees its claims.
* A count of running jobs is read in a later statement than the one that locks it: the snapshot of a
  statement predates its waits.
* A change of a queue's settings waits for the claims that still go by the old ones.
* If the commit's answer is lost, the jobs are RUNNING and their runner does not know: the session's
  slow comparison requeues them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING
from uuid import UUID

from jobmesh_dispatcher.claiming import (
    NO_RUNNER,
    Candidate,
    Decision,
    QueueLimit,
    Seat,
    decide,
    within_bytes,
)
from jobmesh_dispatcher.queue_token import queue_token
from jobmesh_dispatcher.sql import load
from jobmesh_dispatcher.store.expire import bury_expired
from jobmesh_dispatcher.store.outbox import OutboxMessage
from jobmesh_dispatcher.store.release import RELEASED_AT_ONCE, release_held

if TYPE_CHECKING:
    from asyncpg import Record

    from jobmesh_dispatcher.database import Connection

QueueName = tuple[str, str]
NONE_FREED: Counter[QueueName] = Counter()
# Of payloads and checkpoints: whoever reaches it is the last of its claim. The rest has another.
CLAIM_BYTES = 16 << 20


@dataclass(slots=True)
class Claimed:
    """What a claim did. `rows` are those of `claim_jobs.sql`, `expired` those of `bury_jobs.sql`.

    `looked_at` counts the jobs that were locked, whatever became of them. `lonely`: a job was
    parked that is to have a runner for itself.
    """

    rows: list[Record] = field(default_factory=list)
    looked_at: int = 0
    unserved: int = 0  # parked for want of a runner
    held_types: set[str] = field(default_factory=set)
    expired: list[Record] = field(default_factory=list)
    lonely: bool = False
    left: list[UUID] = field(default_factory=list)  # as it would have been too large
    messages: list[OutboxMessage] = field(default_factory=list)


async def claim(
    connection: Connection, job_ids: Sequence[UUID], tokens: Sequence[str], seats: Sequence[Seat]
) -> Claimed:
    """Claim what wake-ups named. `tokens` are those of the wake-ups' queues."""
    seats = await still_attached(connection, seats)
    limits = await lock_limits(connection, tokens)
    rows = await connection.fetch(load("lock_queued"), list(job_ids))
    order = {job_id: index for index, job_id in enumerate(job_ids)}
    rows = sorted(
        (row for row in rows if row["hold_reason"] is None), key=lambda row: order[row["job_id"]]
    )
    return await carry_out_first(connection, rows, limits, seats)


async def claim_lonely(connection: Connection, job: Candidate, seat: Seat) -> Claimed:
    """Claim a parked job that is to have a runner for itself for one that is idle."""
    seats = await still_attached(connection, [seat])
    limits = await lock_limits(connection, [queue_token(job.namespace, job.queue)])
    rows = await connection.fetch(load("lock_queued"), [job.job_id])
    parked = [row for row in rows if row["hold_reason"] == NO_RUNNER and row["alone"]]
    return await _carry_out(connection, parked, limits, seats)


async def claim_held(connection: Connection, seat: Seat) -> Claimed:
    """Claim, straight from the database, jobs parked for want of a runner like this one."""
    seats = await still_attached(connection, [seat])
    if not seats:
        return Claimed()
    queues = sorted(seat.queues) if seat.queues is not None else None
    rows = await connection.fetch(
        load("lock_held_for_runner"), seat.namespace, queues, sorted(seat.types), seat.free
    )
    if not rows:
        return Claimed()
    # Slots come after jobs here, against the order of locks; what is passed over by SKIP LOCKED
    # cannot wait in a circle, and the server would break the one that is left.
    limits = await lock_limits(
        connection, sorted({queue_token(r["namespace"], r["queue"]) for r in rows})
    )
    return await carry_out_first(connection, rows, limits, seats)


def candidate(row: Record) -> Candidate:
    """Of a row of `lock_queued.sql` or its like."""
    return Candidate(
        row["job_id"], row["namespace"], row["queue"], row["type"], row["priority"], row["alone"]
    )


async def still_attached(connection: Connection, seats: Sequence[Seat]) -> list[Seat]:
    """Those whose sessions are still attached so: they stay it until the commit."""
    rows = await connection.fetch(
        load("lock_sessions"), [s.session_id for s in seats], [s.attachment for s in seats]
    )
    attached = {row["session_id"] for row in rows}
    # Copies: the decision takes room from them, and may have to be made again after a deadlock.
    return [replace(seat) for seat in seats if seat.session_id in attached]


async def lock_limits(
    connection: Connection, tokens: Sequence[str], counted: Collection[QueueName] = ()
) -> dict[QueueName, QueueLimit]:
    """The settings of queues, and the room under their limits: they stay so until the commit.

    `counted` are queues whose counts are locked even if they have no limit any more.
    """
    rows = await connection.fetch(load("share_queues"), list(tokens))
    limited = {(row["namespace"], row["name"]) for row in rows if row["max_running"] is not None}
    running = await lock_slots(connection, sorted(limited.union(counted)))
    return {
        (row["namespace"], row["name"]): QueueLimit(
            row["dispatch_paused"],
            None
            if row["max_running"] is None
            else row["max_running"] - running.get((row["namespace"], row["name"]), 0),
        )
        for row in rows
    }


async def lock_counts(connection: Connection, queues: Collection[QueueName]) -> None:
    """What comes before jobs in the order of locks, for jobs that will give slots back."""
    if queues:
        await lock_limits(connection, [queue_token(*queue) for queue in queues], queues)


async def lock_slots(connection: Connection, queues: Sequence[QueueName]) -> dict[QueueName, int]:
    """Lock the counts of these queues, then read them."""
    if not queues:
        return {}
    names = [name for name, _ in queues], [queue for _, queue in queues]
    await connection.fetch(load("lock_slots"), *names)
    rows = await connection.fetch(load("lock_slots"), *names)
    return {(row["namespace"], row["queue"]): row["running"] for row in rows}


async def carry_out_first(
    connection: Connection,
    jobs: Sequence[Record],
    limits: dict[QueueName, QueueLimit],
    seats: Sequence[Seat],
    freed: Counter[QueueName] = NONE_FREED,
) -> Claimed:
    """As many of the first as do not make the claim too large; to park a job reads none of it.

    `freed` are slots that are given back by the same decision: the limits have room for them.
    """
    sizes = [row["bytes"] for row in jobs]
    taken = within_bytes(sizes, CLAIM_BYTES) if seats else len(jobs)
    result = await _carry_out(connection, jobs[:taken], limits, seats, freed)
    result.left = [row["job_id"] for row in jobs[taken:]]
    return result


async def _carry_out(
    connection: Connection,
    jobs: Sequence[Record],
    limits: dict[QueueName, QueueLimit],
    seats: Sequence[Seat],
    freed: Counter[QueueName] = NONE_FREED,
) -> Claimed:
    """Decide about jobs that are locked, and write it: rows of `lock_queued.sql` or its like."""
    late = [(row["job_id"], row["state"]) for row in jobs if row["expired"]]
    decision = decide((candidate(row) for row in jobs if not row["expired"]), limits, seats)
    result = Claimed(expired=await bury_expired(connection, late), looked_at=len(jobs))
    if decision.claims:
        result.rows = await _write_claims(connection, decision)
    taken = Counter((row["namespace"], row["queue"]) for row in result.rows if row["slot"])
    taken.subtract(freed)
    await add_slots(connection, taken)
    if decision.parks:
        parked = [job.job_id for job, _ in decision.parks]
        reasons = [reason for _, reason in decision.parks]
        await connection.execute(load("park_jobs"), parked, reasons)
        unserved = [job for job, reason in decision.parks if reason == NO_RUNNER]
        result.unserved = len(unserved)
        result.held_types = {job.type for job in unserved}
        result.lonely = any(job.alone for job in unserved)
    result.messages = await _release_free(connection, limits, decision)
    return result


async def _write_claims(connection: Connection, decision: Decision) -> list[Record]:
    claims = sorted(decision.claims, key=lambda c: c[0].job_id)
    rows: list[Record] = await connection.fetch(
        load("claim_jobs"),
        [job.job_id for job, _, _ in claims],
        [seat.session_id for _, seat, _ in claims],
        [seat.runner_id for _, seat, _ in claims],
        [counted for _, _, counted in claims],
    )
    return rows


async def add_slots(connection: Connection, numbers: Counter[QueueName]) -> dict[QueueName, int]:
    """Add to counts that are locked; the counts after it."""
    changes = sorted((queue, number) for queue, number in numbers.items() if number)
    if not changes:
        return {}
    rows = await connection.fetch(
        load("add_slots"),
        [queue[0] for queue, _ in changes],
        [queue[1] for queue, _ in changes],
        [number for _, number in changes],
    )
    return {(row["namespace"], row["queue"]): row["running"] for row in rows}


async def _release_free(
    connection: Connection, limits: dict[QueueName, QueueLimit], decision: Decision
) -> list[OutboxMessage]:
    """Wake held jobs for room that nobody took.

    The job that was woken for it may have been cancelled meanwhile.
    """
    taken = Counter((job.namespace, job.queue) for job, _, _ in decision.claims)
    messages: list[OutboxMessage] = []
    for (namespace, queue), limit in limits.items():
        if limit.free is None or limit.paused:
            continue
        left = min(limit.free - taken[namespace, queue], RELEASED_AT_ONCE)
        if left > 0:
            messages += await release_held(connection, namespace, queue, "MAX_RUNNING", left)
    return messages
