"""Deadlines and expiry: what waits for too long is cancelled, and what is late never starts."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import pytest
from google.protobuf.duration_pb2 import Duration
from google.protobuf.timestamp_pb2 import Timestamp

from jobmesh.errors import WrongState
from jobmesh.v1.job_service_pb2 import RetryJobRequest
from jobmesh_dispatcher.assignments import assignment_of
from jobmesh_dispatcher.database import Database
from jobmesh_dispatcher.sql import load
from jobmesh_dispatcher.store.expire import expire
from jobmesh_dispatcher.store.revive import revive
from tests.support import decisions as d


@pytest.fixture
async def db(database: str) -> AsyncIterator[Database]:
    async with d.opened(database) as opened:
        await d.make_queue(opened)
        yield opened


def in_seconds(seconds: float) -> Timestamp:
    time = Timestamp()
    time.FromDatetime(datetime.now(UTC) + timedelta(seconds=seconds))
    return time


async def pass_time(db: Database, seconds: float) -> None:
    """As if the jobs had been submitted so much earlier."""
    await db.fetch(
        """UPDATE jobmesh.jobs_live SET deadline = deadline - make_interval(secs => $1),
               expire_at = expire_at - make_interval(secs => $1),
               run_at = run_at - make_interval(secs => $1)""",
        seconds,
    )


async def expired(db: Database) -> set[UUID]:
    return {row["job_id"] for row in await db.run(lambda c: expire(c, 100))}


async def state(db: Database, job_id: UUID) -> tuple[str, str]:
    job = await d.job(db, job_id)
    return job["state"], job["reason"]


DUE = Duration(seconds=60)


@pytest.mark.parametrize(
    "spec",
    [
        {"deadline": 60},
        {"expires_after": DUE},
        {"expires_after": Duration(seconds=600), "deadline": 60},
        {"deadline": 60, "delay": Duration(seconds=3600)},
    ],
    ids=["deadline", "expires_after", "whichever is first", "scheduled"],
)
async def test_a_job_that_waits_for_too_long_is_cancelled(
    db: Database, spec: dict[str, Any]
) -> None:
    if "deadline" in spec:
        spec = spec | {"deadline": in_seconds(spec["deadline"])}
    job_id, other = await d.store_one(db, **spec), await d.store_one(db)
    assert await expired(db) == set()
    await pass_time(db, 61)
    assert await expired(db) == {job_id}
    assert await state(db, job_id) == ("CANCELLED", "EXPIRED")
    assert (await state(db, other))[0] == "QUEUED"


async def test_it_expires_so_long_after_it_became_ready(db: Database) -> None:
    job_id = await d.store_one(db, delay=Duration(seconds=3600), expires_after=DUE)
    await pass_time(db, 3601)
    assert await expired(db) == set()
    await pass_time(db, 60)
    assert await expired(db) == {job_id}


async def test_a_claim_starts_nothing_that_has_expired(db: Database) -> None:
    late, good = await d.store_one(db, expires_after=DUE), await d.store_one(db)
    await pass_time(db, 61)
    claimed = await d.claim_all(db, [late, good], await d.attach(db))
    assert [row["job_id"] for row in claimed.rows] == [good]
    assert [row["job_id"] for row in claimed.expired] == [late]
    assert await state(db, late) == ("CANCELLED", "EXPIRED")


async def test_what_has_started_once_expires_at_its_deadline_only(db: Database) -> None:
    job_id = await d.store_one(db, expires_after=DUE, deadline=in_seconds(600))
    (lease,) = d.leases(await d.claim_all(db, [job_id], await d.attach(db)))
    await d.report(db, d.failed(lease))  # with the time that it ran
    assert (await state(db, job_id))[0] == "RETRYING"
    await pass_time(db, 61)
    assert await expired(db) == set()
    await pass_time(db, 600)
    assert await expired(db) == {job_id}


async def test_what_was_claimed_and_never_started_still_expires(db: Database) -> None:
    job_id = await d.store_one(db, expires_after=DUE)
    (lease,) = d.leases(await d.claim_all(db, [job_id], await d.attach(db)))
    await pass_time(db, 61)
    assert await expired(db) == set()  # its runner has it
    await d.report(db, d.interrupted(lease))
    assert await expired(db) == {job_id}


async def test_a_start_that_was_written_down_ends_the_expiry(db: Database) -> None:
    job_id = await d.store_one(db, expires_after=DUE)
    (lease,) = d.leases(await d.claim_all(db, [job_id], await d.attach(db)))
    await db.fetch(load("start_jobs"), [job_id], [lease.attempt], [lease.session_id])
    await d.report(db, d.interrupted(lease))
    await pass_time(db, 61)
    assert await expired(db) == set()


async def test_nothing_is_retried_beyond_the_deadline(db: Database) -> None:
    job_id = await d.store_one(db, deadline=in_seconds(600))
    (row,) = (await d.claim_all(db, [job_id], await d.attach(db))).rows
    lease, assignment = assignment_of(row)
    assert 590 < assignment.time_left.ToMilliseconds() / 1000 <= 600
    await pass_time(db, 600)
    await d.report(db, d.failed(lease))
    assert await state(db, job_id) == ("DEAD", "FAILED")


async def test_a_retry_by_hand_counts_the_expiry_anew_and_minds_the_deadline(
    db: Database,
) -> None:
    fresh = await d.store_one(db, expires_after=DUE)
    late = await d.store_one(db, deadline=in_seconds(60))
    await pass_time(db, 61)
    assert await expired(db) == {fresh, late}
    await db.run(lambda c: revive(c, "default", RetryJobRequest(job_id=str(fresh))))
    assert await expired(db) == set()
    await pass_time(db, 61)
    assert await expired(db) == {fresh}
    with pytest.raises(WrongState, match="deadline"):
        await db.run(lambda c: revive(c, "default", RetryJobRequest(job_id=str(late))))


async def test_a_pass_takes_no_more_than_it_is_told(db: Database) -> None:
    jobs = {await d.store_one(db, expires_after=DUE) for _ in range(5)}
    await pass_time(db, 61)
    first = {row["job_id"] for row in await db.run(lambda c: expire(c, 3))}
    assert len(first) == 3
    assert await expired(db) == jobs - first
