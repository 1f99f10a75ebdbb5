"""Slots of limited queues go from the jobs that end to the next that wait for them.

Guarantee: in the transaction that gives slots back, as many of their queues' parked jobs become
RUNNING under sessions that are still attached, or are woken, or none is left that nobody else has
locked; a queue never has more jobs running than its `max_running`.

* Sessions, queues and slots are locked by `hold_places`, before the jobs that end are: the order of
  locks is that of every claim.
* A queue that got its limit only now, or that is paused, hands nothing over: its slots are given
  back as by whatever else ends a job.
* No runner here has room for the next job, or fits it, or it is to have one for itself: it is woken
  as by any other end of a hold.
* The next jobs are just being cancelled, or expire: the slots stay free until the next claim, or
  the leader's next repair.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from jobmesh_dispatcher.claiming import MAX_RUNNING, QueueLimit, Seat, decide
from jobmesh_dispatcher.queue_token import queue_token
from jobmesh_dispatcher.sql import load
from jobmesh_dispatcher.store.claim import (
    Claimed,
    QueueName,
    candidate,
    carry_out_first,
    lock_limits,
    still_attached,
)
from jobmesh_dispatcher.store.consequences import give_back_slots

if TYPE_CHECKING:
    from asyncpg import Record

    from jobmesh_dispatcher.database import Connection


@dataclass(slots=True)
class Places:
    """What is held for jobs that take over slots: their queues' limits, and runners' room."""

    limits: dict[QueueName, QueueLimit]
    seats: list[Seat]


async def hold_places(
    connection: Connection, queues: Collection[QueueName], seats: Sequence[Seat]
) -> Places:
    """Lock what a claim of jobs of these queues does, before any job."""
    attached = await still_attached(connection, seats) if seats else []
    tokens = sorted(queue_token(*queue) for queue in queues)
    return Places(await lock_limits(connection, tokens, queues), attached)


async def hand_over(connection: Connection, freed: Counter[QueueName], places: Places) -> Claimed:
    """Give back the slots of jobs that left RUNNING, and let the next jobs have them."""
    limits = _limits(places, freed) if places.seats else {}
    handed = Counter({queue: freed[queue] for queue in limits})
    claimed = Claimed()
    if limits:
        jobs = await _takers(connection, limits, places.seats)
        claimed = await carry_out_first(connection, jobs, limits, places.seats, handed)
    claimed.messages += await give_back_slots(connection, freed - handed)
    return claimed


def _limits(places: Places, freed: Counter[QueueName]) -> dict[QueueName, QueueLimit]:
    """Room for no more than was freed, in queues that have a limit and are not paused."""
    return {
        queue: QueueLimit(False, min(freed[queue], limit.free + freed[queue]))
        for queue, limit in places.limits.items()
        if freed[queue] and limit.free is not None and not limit.paused
    }


async def _takers(
    connection: Connection, limits: Mapping[QueueName, QueueLimit], seats: Sequence[Seat]
) -> list[Record]:
    """Of the jobs whose turn it is, those that will be claimed, or have expired."""
    rows = [
        row
        for queue, limit in limits.items()
        if limit.free is not None and limit.free > 0
        for row in await connection.fetch(load("lock_held"), *queue, MAX_RUNNING, limit.free)
    ]
    waiting = [candidate(row) for row in rows if not (row["alone"] or row["expired"])]
    decision = decide(waiting, limits, [replace(seat) for seat in seats])
    takers = {job.job_id for job, _, _ in decision.claims}
    return [row for row in rows if row["expired"] or row["job_id"] in takers]
