"""What the database has in the end."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from typing import Any

import asyncpg
import msgspec

from tests.faults.history import Attempt, Change, Job

TIMEOUT = 60.0
BATCH = 2000
COLUMNS = (
    "job_id, queue, type, state, reason, revision, attempt, failures, crashes, labels, history, "
    "attempts"
)
JOBS = f"""
SELECT {COLUMNS}, slot, NULL::bytea AS result FROM jobmesh.jobs_live
UNION ALL
SELECT {COLUMNS}, false AS slot, result FROM jobmesh.jobs_history
"""


async def jobs(connection: asyncpg.Connection) -> AsyncIterator[Job]:
    """All jobs, live and ended."""
    async with connection.transaction():
        async for row in connection.cursor(JOBS, prefetch=BATCH, timeout=TIMEOUT):
            yield _job(row)


async def requests(connection: asyncpg.Connection) -> dict[str, str]:
    """The job of each request id."""
    rows = await connection.fetch("SELECT request_id, job_id FROM jobmesh.request_ids")
    return {row["request_id"]: str(row["job_id"]) for row in rows}


async def slots(connection: asyncpg.Connection) -> dict[str, int]:
    """How many jobs of each limited queue are counted as running."""
    rows = await connection.fetch("SELECT queue, running FROM jobmesh.queue_slots")
    return {row["queue"]: row["running"] for row in rows}


def _job(row: asyncpg.Record) -> Job:
    return Job(
        id=str(row["job_id"]),
        queue=row["queue"],
        type=row["type"],
        state=row["state"],
        reason=row["reason"],
        revision=row["revision"],
        attempt=row["attempt"],
        failures=row["failures"],
        crashes=row["crashes"],
        slot=row["slot"],
        changes=tuple(_changes(row["history"])),
        attempts=tuple(_attempts(row["attempts"])),
        result=msgspec.json.decode(row["result"]) if row["result"] else None,
        labels=msgspec.json.decode(row["labels"]),
    )


def _changes(rows: Any) -> Iterator[Change]:
    for row in rows:
        moment = row["time"].timestamp()
        yield Change(row["revision"], row["state"], row["reason"], moment, row["attempt"])


def _attempts(rows: Any) -> Iterator[Attempt]:
    for row in rows:
        start = row["start_time"].timestamp() if row["start_time"] else None
        end = row["end_time"].timestamp()
        yield Attempt(row["attempt"], row["outcome"], start, end, row["runner_id"])
