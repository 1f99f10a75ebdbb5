"""Slots of limited queues go from the jobs that end to the next that wait for them.

Guarantee: in the transaction that gives slots back, as many of their queues' parked jobs become
RUNNING under sessions that are still attached, or are woken, or no more of them are parked; a queue
never has more jobs running than its `max_running`.

* Sessions, queues and slots are locked by `hold_places`, before the jobs that end are: the order of
  locks is that of every claim.
* A queue that got its limit only now, or that is paused, hands nothing over: its slots are given
  back as by whatever else ends a job.
* No runner here fits the next job: it is parked for any that does, and another is woken instead.
* A job that is to have a runner for itself is woken: to find it one is the business of a claim.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from jobmesh_dispatcher.claiming import MAX_RUNNING, QueueLimit, Seat
from jobmesh_dispatcher.queue_token import queue_token
from jobmesh_dispatcher.sql import load
from jobmesh_dispatcher.store.claim import (
    Claimed,
    QueueName,
    add_slots,
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
    connection: Connection, queues: Sequence[QueueName], seats: Sequence[Seat]
) -> Places:
    """Lock what a claim of jobs of these queues does, before any job."""
    attached = await still_attached(connection, seats) if seats else []
    limits = await lock_limits(connection, sorted(queue_token(*queue) for queue in queues))
    return Places(limits, attached)


async def hand_over(connection: Connection, freed: Counter[QueueName], places: Places) -> Claimed:
    """Give back the slots of jobs that left RUNNING, and let the next jobs have them."""
    limits = _with_freed(places, freed) if places.seats else {}
    handed = Counter({queue: freed[queue] for queue in limits})
    claimed = Claimed()
    if limits:
        await add_slots(connection, Counter({queue: -number for queue, number in handed.items()}))
        jobs = [job for queue in limits for job in await _next(connection, queue, handed[queue])]
        claimed = await carry_out_first(connection, jobs, limits, places.seats)
    claimed.messages += await give_back_slots(connection, freed - handed)
    return claimed


def _with_freed(places: Places, freed: Counter[QueueName]) -> dict[QueueName, QueueLimit]:
    """The room there will be in queues that have a limit and are not paused."""
    return {
        queue: QueueLimit(False, limit.free + freed[queue])
        for queue, limit in places.limits.items()
        if freed[queue] and limit.free is not None and not limit.paused
    }


async def _next(connection: Connection, queue: QueueName, number: int) -> list[Record]:
    rows = await connection.fetch(load("lock_held"), *queue, MAX_RUNNING, number)
    return [row for row in rows if not row["alone"]]
