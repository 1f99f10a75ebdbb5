"""Retention: room for the jobs that will end, and an end to those that did long ago.

History has a partition a day and state. They are made ahead, so that ending a job never waits for
one; what ends on a day without one goes into the rest partition of its state. Dropping a day costs
nothing a job; rest partitions and logs are deleted in bounded batches.

Everything here may be stopped at any point and begun again, and done by two at once. Each step is a
transaction of its own: call these functions outside of one.
"""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass
from datetime import date, timedelta
from typing import TYPE_CHECKING
from uuid import UUID

import asyncpg

from jobmesh_dispatcher.sql import load

if TYPE_CHECKING:
    from asyncpg import Record

    from jobmesh_dispatcher.database import Connection

log = logging.getLogger(__name__)

DAYS_AHEAD = 3
KEPT = {
    "SUCCEEDED": timedelta(days=7),
    "CANCELLED": timedelta(days=7),
    "DEAD": timedelta(days=90),
}
KEYS_KEPT = timedelta(hours=24)  # those of jobs for as long as these, and at least as long
SESSIONS_KEPT = timedelta(days=1)
FIRINGS_KEPT = timedelta(days=90)
BATCH = 5000  # rows
JOBS_OF_LOGS = 200  # of up to 10,000 lines each
BUDGET_SECONDS = 60.0
TRIES = 5
_NIL = UUID(int=0)


@dataclass(slots=True)
class Retained:
    """What was dropped. `complete` is false if the time was up, or a lock was not to be had."""

    partitions: int = 0
    jobs: int = 0
    log_lines: int = 0
    steps: int = 0
    request_ids: int = 0
    operations: int = 0
    sessions: int = 0
    firings: int = 0
    complete: bool = True


async def ensure_partitions(connection: Connection, days_ahead: int = DAYS_AHEAD) -> int:
    """Make what is missing of the partitions of today and the days to come; how many were made."""
    made = 0
    for row in await connection.fetch(load("missing_partitions"), days_ahead):
        made += bool(await _alone(connection, "make_partition", row["parent"], row["day"]))
    return made


async def retain(connection: Connection, budget_seconds: float = BUDGET_SECONDS) -> Retained:
    """Drop what is past its retention; no batch is begun after so many seconds."""
    retention = _Retention(connection, asyncio.get_running_loop().time() + budget_seconds)
    await retention.run()
    return retention.done


class _Retention:
    """One pass, which counts as it goes."""

    def __init__(self, connection: Connection, deadline: float) -> None:
        self._connection = connection
        self._deadline = deadline
        self.done = Retained()

    async def run(self) -> None:
        for state, kept in KEPT.items():
            table = f"jobs_{state.lower()}"
            for partition in await self._connection.fetch(load("expired_partitions"), table, kept):
                # What belongs to jobs goes first: it is found by them, as long as they are there.
                await self._delete_logs(state, partition)
                await self._delete_steps(state, partition)
                await self._delete_request_ids(state, partition)
                await self._delete_jobs(state, table, partition)
        self.done.operations += await self._delete("delete_operations", KEYS_KEPT)
        self.done.sessions += await self._delete("delete_sessions", SESSIONS_KEPT)
        self.done.firings += await self._delete("delete_firings", FIRINGS_KEPT)

    def _has_time(self) -> bool:
        if asyncio.get_running_loop().time() < self._deadline:
            return True
        self.done.complete = False
        return False

    async def _delete_logs(self, state: str, partition: Record) -> None:
        after: UUID | None = _NIL
        while after is not None and self._has_time():
            row = await self._connection.fetchrow(
                load("delete_logs"),
                *(*_jobs_of(state, partition), after, JOBS_OF_LOGS),
                timeout=BUDGET_SECONDS,  # a job may have 10,000 lines
            )
            assert row is not None
            self.done.log_lines += row["lines"]
            after = row["last_job_id"]

    async def _delete_steps(self, state: str, partition: Record) -> None:
        after: UUID | None = _NIL
        while after is not None and self._has_time():
            row = await self._connection.fetchrow(
                load("delete_steps"),
                *(*_jobs_of(state, partition), after, JOBS_OF_LOGS),
                timeout=BUDGET_SECONDS,
            )
            assert row is not None
            self.done.steps += row["steps"]
            after = row["last_job_id"]

    async def _delete_request_ids(self, state: str, partition: Record) -> None:
        if self._has_time():
            # One statement for a day, of rows that nobody else wants.
            self.done.request_ids += await self._connection.fetchval(
                load("delete_request_ids"), *_jobs_of(state, partition), timeout=BUDGET_SECONDS
            )

    async def _delete_jobs(self, state: str, table: str, partition: Record) -> None:
        if not self._has_time():
            return
        if partition["day"] is None:
            name, ends = partition["name"], partition["ends"]
            self.done.jobs += await self._delete("delete_rest", state, name, ends)
            return
        dropped = await _alone(self._connection, "drop_partition", table, partition["day"])
        self.done.partitions += bool(dropped)
        self.done.complete &= dropped is not None

    async def _delete(self, statement: str, *arguments: object) -> int:
        """Repeat a statement that deletes a batch until nothing is left; how many rows it were."""
        deleted = 0
        while self._has_time():
            batch = await self._connection.fetchval(load(statement), *arguments, BATCH)
            deleted += batch
            if batch < BATCH:
                break
        return deleted


def _jobs_of(state: str, partition: Record) -> tuple[object, ...]:
    """The arguments that name the jobs of a partition which have been kept for long enough."""
    return state, partition["name"], partition["begins"], partition["ends"]


async def _alone(connection: Connection, statement: str, parent: str, day: date) -> bool | None:
    """Make or drop a partition while nobody else does.

    None if it would have to wait for long: everybody who writes or reads jobs waits behind it.
    """
    for _ in range(TRIES):
        try:
            async with connection.transaction():
                await connection.execute(load("lock_partitions"))
                done: bool = await connection.fetchval(load(statement), parent, day)
                return done
        except asyncpg.LockNotAvailableError:
            # The next try stands at the end of the queue: those who waited behind us go first.
            continue
    log.warning("partition of %s for %s: no lock; left for later", parent, day)
    return None
