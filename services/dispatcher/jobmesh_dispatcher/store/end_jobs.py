"""Ending the jobs of a schedule for the sake of a later firing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Self
from uuid import UUID

from jobmesh_dispatcher.sql import load
from jobmesh_dispatcher.store.claim import lock_counts
from jobmesh_dispatcher.store.consequences import give_back_slots
from jobmesh_dispatcher.store.outbox import OutboxMessage

if TYPE_CHECKING:
    from asyncpg import Record

    from jobmesh_dispatcher.database import Connection


@dataclass(slots=True)
class Ended:
    """Changes of jobs to tell of, and (job, session) whose runners have to stop a handler."""

    rows: list[Record] = field(default_factory=list)
    messages: list[OutboxMessage] = field(default_factory=list)
    stops: list[tuple[UUID, UUID]] = field(default_factory=list)

    def __iadd__(self, other: Ended) -> Self:
        self.rows += other.rows
        self.messages += other.messages
        self.stops += other.stops
        return self


async def cancel_jobs(connection: Connection, schedule: Record, reason: str) -> Ended:
    """Cancel what waits, and ask what runs to stop."""
    jobs = await _lock(connection, schedule)
    ended = Ended(rows=await _ask(connection, jobs, reason))
    ended.stops = [(j["job_id"], j["session_id"]) for j in jobs if j["session_id"] is not None]
    waiting = [j for j in jobs if j["session_id"] is None]
    ended.rows += await _bury(connection, waiting, [j["state"] for j in waiting], reason)
    return ended


async def terminate_jobs(connection: Connection, schedule: Record, reason: str) -> Ended:
    """End them all now. What their handlers still report is refused, and they are told to stop."""
    queues = await connection.fetch(
        load("find_schedule_queues"), schedule["namespace"], schedule["schedule_id"]
    )
    await lock_counts(connection, {(q["namespace"], q["queue"]) for q in queues})
    jobs = await _lock(connection, schedule)
    ended = Ended(rows=await _ask(connection, jobs, reason))
    states = ["CANCELLING" if j["session_id"] is not None else j["state"] for j in jobs]
    ended.rows += await _bury(connection, jobs, states, reason)
    counted = Counter((job["namespace"], job["queue"]) for job in jobs if job["slot"])
    ended.messages = await give_back_slots(connection, counted)
    ended.stops = [(j["job_id"], j["session_id"]) for j in jobs if j["session_id"] is not None]
    return ended


async def _lock(connection: Connection, schedule: Record) -> list[Record]:
    jobs: list[Record] = await connection.fetch(
        load("lock_schedule_jobs"), schedule["namespace"], schedule["schedule_id"]
    )
    return jobs


async def _ask(connection: Connection, jobs: Sequence[Record], reason: str) -> list[Record]:
    """What runs is asked to stop, as by a caller."""
    return [
        await connection.fetchrow(load("cancel_running"), job["job_id"], job["attempt"], reason)
        for job in jobs
        if job["state"] == "RUNNING"
    ]


async def _bury(
    connection: Connection, jobs: Sequence[Record], states: Sequence[str], reason: str
) -> list[Record]:
    if not jobs:
        return []
    count = len(jobs)
    rows: list[Record] = await connection.fetch(
        load("bury_jobs"),
        [job["job_id"] for job in jobs],
        list(states),
        ["CANCELLED"] * count,
        ["CANCELLED"] * count,
        [0] * count,
        [reason] * count,
    )
    return rows
