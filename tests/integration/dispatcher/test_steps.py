"""Steps of handlers: stored once, found by later attempts, refused to earlier ones."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from datetime import timedelta
from uuid import UUID

import pytest

from jobmesh.v1.job_pb2 import Payload
from jobmesh.v1.job_service_pb2 import RetryJobRequest
from jobmesh_dispatcher.assignments import assignment_of
from jobmesh_dispatcher.database import Database
from jobmesh_dispatcher.lease import Lease
from jobmesh_dispatcher.store import steps
from jobmesh_dispatcher.store.retention import retain
from jobmesh_dispatcher.store.revive import revive
from jobmesh_dispatcher.store.sessions import end_session
from jobmesh_dispatcher.store.steps import Answer, Known, Step, settle
from tests.support import decisions as d
from tests.support.wait import until


@pytest.fixture
async def db(database: str) -> AsyncIterator[Database]:
    async with d.opened(database) as opened:
        await d.make_queue(opened)
        yield opened


async def claimed(db: Database, job_id: UUID) -> Lease:
    (lease,) = d.leases(await d.claim_all(db, [job_id], await d.attach(db)))
    return lease


def brought(lease: Lease, key: str, data: bytes = b"1") -> Step:
    return Step(lease, key, Payload(data=data, content_type="application/json"))


async def say(db: Database, *asked: Step) -> list[Answer]:
    return await db.run(lambda c: settle(c, asked))


async def count(db: Database, job_id: UUID) -> tuple[int, int]:
    """As the job counts them, and as they are."""
    (row,) = await db.fetch(
        """SELECT job.steps, (SELECT count(*) FROM jobmesh.job_steps step
                              WHERE step.job_id = job.job_id) AS stored
           FROM jobmesh.jobs_live job WHERE job.job_id = $1""",
        job_id,
    )
    return row["steps"], row["stored"]


async def test_a_step_is_stored_once_and_the_first_result_stands(db: Database) -> None:
    job_id = await d.store_one(db)
    lease = await claimed(db, job_id)
    assert [a.known for a in await say(db, Step(lease, "charge", None))] == [Known.ABSENT]
    assert [a.known for a in await say(db, brought(lease, "charge", b"1"))] == [Known.STORED]
    (again,) = await say(db, brought(lease, "charge", b"2"))
    assert (again.known, again.result and again.result.data) == (Known.FOUND, b"1")
    (asked,) = await say(db, Step(lease, "charge", None))
    assert (asked.known, asked.result and asked.result.data) == (Known.FOUND, b"1")
    assert await count(db, job_id) == (1, 1)


async def test_a_later_attempt_finds_what_an_earlier_one_stored(db: Database) -> None:
    job_id = await d.store_one(db)
    first = await claimed(db, job_id)
    await say(db, brought(first, "a"), brought(first, "b"))
    await d.report(db, d.interrupted(first))
    (row,) = (await d.claim_all(db, [job_id], await d.attach(db))).rows
    second, assignment = assignment_of(row)
    assert assignment.steps == 2
    answers = await say(db, Step(second, "a", None), Step(second, "c", None))
    assert [a.known for a in answers] == [Known.FOUND, Known.ABSENT]


async def test_an_attempt_that_has_ended_stores_and_reads_nothing(db: Database) -> None:
    job_id = await d.store_one(db)
    old = await claimed(db, job_id)
    await d.report(db, d.interrupted(old))
    answers = await say(db, brought(old, "a"), Step(old, "a", None))
    assert [a.known for a in answers] == [Known.LEASE_LOST] * 2
    await claimed(db, job_id)
    assert [a.known for a in await say(db, brought(old, "a"))] == [Known.LEASE_LOST]
    assert await count(db, job_id) == (0, 0)


async def test_a_step_that_waits_for_the_end_of_its_lease_is_not_stored(db: Database) -> None:
    job_id, seat = await d.store_one(db), await d.attach(db)
    (lease,) = d.leases(await d.claim_all(db, [job_id], seat))
    async with db.transaction() as connection:
        await end_session(connection, seat.session_id, seat.attachment, "test", crashed=True)
        saying = asyncio.create_task(say(db, brought(lease, "a")))

        async def waits() -> bool:
            return bool(
                await db.fetch(
                    """SELECT 1 FROM pg_stat_activity
                       WHERE wait_event_type = 'Lock' AND datname = current_database()"""
                )
            )

        await until(waits, timeout=10, describe=lambda: "no wait for a lock")
    assert [a.known for a in await saying] == [Known.LEASE_LOST]
    assert await count(db, job_id) == (0, 0)


async def test_steps_of_many_jobs_are_told_apart(db: Database) -> None:
    jobs = [await d.store_one(db) for _ in range(3)]
    leases = [await claimed(db, job_id) for job_id in jobs]
    answers = await say(db, *(brought(x, "same", bytes([48 + n])) for n, x in enumerate(leases)))
    assert {a.known for a in answers} == {Known.STORED}
    found = await say(db, *(Step(lease, "same", None) for lease in leases))
    assert [a.result and a.result.data for a in found] == [b"0", b"1", b"2"]


async def test_the_same_step_twice_in_one_batch_is_stored_once(db: Database) -> None:
    job_id = await d.store_one(db)
    lease = await claimed(db, job_id)
    await say(db, brought(lease, "a", b"1"), brought(lease, "a", b"1"))
    assert await count(db, job_id) == (1, 1)


async def test_a_job_has_so_many_steps_and_no_more(
    db: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(steps, "MOST_STEPS", 5)
    job_id = await d.store_one(db)
    lease = await claimed(db, job_id)
    answers = await say(db, *(brought(lease, f"step {n}") for n in range(8)))
    assert sorted(a.known.value for a in answers) == ["refused"] * 3 + ["stored"] * 5
    assert [a.known for a in await say(db, brought(lease, "one more"))] == [Known.REFUSED]
    stored = next(n for n, a in enumerate(answers) if a.known is Known.STORED)
    assert [a.known for a in await say(db, brought(lease, f"step {stored}"))] == [Known.FOUND]
    assert await count(db, job_id) == (5, 5)


async def test_steps_outlive_the_end_of_the_job_and_a_retry_by_hand(db: Database) -> None:
    job_id = await d.store_one(db)
    lease = await claimed(db, job_id)
    await say(db, brought(lease, "a"))
    await d.report(db, d.failed(lease, retryable=False))
    assert (await d.job(db, job_id))["state"] == "DEAD"
    await db.run(lambda c: revive(c, "default", RetryJobRequest(job_id=str(job_id))))
    assert await count(db, job_id) == (1, 1)
    (answer,) = await say(db, Step(await claimed(db, job_id), "a", None))
    assert answer.known is Known.FOUND


async def test_steps_go_with_their_job(db: Database) -> None:
    old, new = await d.store_one(db), await d.store_one(db)
    for job_id in (old, new):
        lease = await claimed(db, job_id)
        await say(db, brought(lease, "a"))
        await d.report(db, d.succeeded(lease))
    await db.fetch(
        "UPDATE jobmesh.jobs_history SET end_time = end_time - $2::interval WHERE job_id = $1",
        old,
        timedelta(days=30),
    )
    async with db.connection() as connection:
        done = await retain(connection)
    assert done.steps == 1
    rows = await db.fetch("SELECT job_id FROM jobmesh.job_steps")
    assert [row["job_id"] for row in rows] == [new]
