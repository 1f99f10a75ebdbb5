"""The claim in one statement: what it takes, what it leaves, and whom it waits for."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from uuid import UUID

import pytest

from jobmesh.ids import new_id
from jobmesh_dispatcher.claiming import Seat
from jobmesh_dispatcher.database import KEPT_PLANS, Database
from jobmesh_dispatcher.queue_token import queue_token
from jobmesh_dispatcher.store.cancel import cancel
from jobmesh_dispatcher.store.claim import CLAIM_BYTES, Claimed
from jobmesh_dispatcher.store.claim_at_once import claim_at_once
from jobmesh_dispatcher.store.sessions import end_session
from tests.support import decisions as d

OTHER = "other"


@pytest.fixture
async def db(database: str) -> AsyncIterator[Database]:
    opened = Database(database, plans=KEPT_PLANS)
    await opened.start()
    try:
        await d.make_queue(opened)
        await d.make_queue(opened, OTHER)
        yield opened
    finally:
        await opened.stop()


async def take(db: Database, job_ids: Sequence[UUID], *seats: Seat) -> Claimed:
    """Claim jobs for runners, in turn."""
    tokens = [queue_token(d.NAMESPACE, name) for name in (d.QUEUE, OTHER)]
    dealt = [seats[number % len(seats)] for number in range(len(job_ids))]
    return await db.run_alone(lambda c: claim_at_once(c, job_ids, tokens, dealt))


async def test_jobs_get_leases_of_the_runners_they_were_dealt_to(db: Database) -> None:
    jobs = [await d.store_one(db) for _ in range(5)]
    seats = [await d.attach(db), await d.attach(db)]
    claimed = await take(db, jobs, *seats)
    assert {row["job_id"] for row in claimed.rows} == set(jobs)
    for number, job_id in enumerate(jobs):
        row = await d.job(db, job_id)
        assert (row["state"], row["attempt"], row["slot"]) == ("RUNNING", 1, False)
        assert row["session_id"] == seats[number % 2].session_id
        assert [change["state"] for change in row["history"]] == ["QUEUED", "RUNNING"]


async def test_a_job_that_is_claimed_again_has_the_next_attempt(db: Database) -> None:
    job_id = await d.store_one(db)
    first = await d.attach(db)
    await take(db, [job_id], first)
    await db.run(
        lambda c: end_session(c, first.session_id, first.attachment, "test", crashed=False)
    )
    (lease,) = d.leases(await take(db, [job_id], await d.attach(db)))
    assert lease.attempt == 2
    assert (await d.report(db, d.succeeded(lease))).settled == {lease.key}


async def test_what_would_make_it_too_large_is_left_in_order(db: Database) -> None:
    jobs = [await d.store_one(db) for _ in range(40)]
    await d.swell(db, CLAIM_BYTES // 8)
    claimed = await take(db, jobs, await d.attach(db, free=40))
    assert {row["job_id"] for row in claimed.rows} == set(jobs[:8])


STANDS_IN_THE_WAY = {
    "parked": "UPDATE jobmesh.jobs_live SET hold_reason = 'NO_RUNNER'",
    "expired": "UPDATE jobmesh.jobs_live SET expire_at = clock_timestamp()",
    "suspected": "UPDATE jobmesh.jobs_live SET suspect = 2",
    "another type": "UPDATE jobmesh.jobs_live SET type = 'strange'",
    "another namespace": "UPDATE jobmesh.jobs_live SET namespace = 'strange'",
    "waits for its time": """UPDATE jobmesh.jobs_live SET state = 'RETRYING',
        run_at = clock_timestamp(), queued_at = NULL""",
    "its queue is paused": "UPDATE jobmesh.queues SET dispatch_paused = true",
    "its queue is limited": "UPDATE jobmesh.queues SET max_running = 5",
    "the session has ended": "UPDATE jobmesh.sessions SET end_time = clock_timestamp()",
    "the session has moved": "UPDATE jobmesh.sessions SET attachment = gen_random_uuid()",
}


@pytest.mark.parametrize("why", STANDS_IN_THE_WAY)
async def test_what_something_stands_in_the_way_of_is_left_as_it_was(
    db: Database, why: str
) -> None:
    job_id, seat = await d.store_one(db), await d.attach(db)
    await db.fetch(STANDS_IN_THE_WAY[why])
    before = await d.job(db, job_id)
    assert (await take(db, [job_id], seat)).rows == []
    assert await d.job(db, job_id) == before


async def test_a_runner_gets_jobs_of_its_queues_only(db: Database) -> None:
    mine, others = await d.store_one(db, queue=OTHER), await d.store_one(db)
    seat = Seat(
        d.uid(), d.uid(), "runner", d.NAMESPACE, frozenset({"t"}), frozenset({OTHER}), 4, 4, 0
    )
    await d.reattach(db, seat)
    claimed = await take(db, [mine, others, UUID(new_id())], seat)
    assert [row["job_id"] for row in claimed.rows] == [mine]


async def test_of_many_claims_at_once_one_gets_the_job(db: Database) -> None:
    jobs = [await d.store_one(db) for _ in range(20)]
    seats = [await d.attach(db) for _ in range(8)]
    claims = await asyncio.gather(*(take(db, jobs, seat) for seat in seats))
    assert sorted(row["job_id"] for claimed in claims for row in claimed.rows) == sorted(jobs)
    for job_id in jobs:
        row = await d.job(db, job_id)
        assert (row["attempt"], row["revision"]) == (1, 2)


async def test_one_that_waits_for_the_end_of_its_session_gets_nothing(db: Database) -> None:
    job_id, seat = await d.store_one(db), await d.attach(db)
    async with db.transaction() as connection:
        await end_session(connection, seat.session_id, seat.attachment, "test", crashed=True)
        claiming = asyncio.create_task(take(db, [job_id], seat))
        await d.blocked(db)
    assert (await claiming).rows == []
    assert (await d.job(db, job_id))["state"] == "QUEUED"


async def test_the_end_of_a_session_waits_for_its_claims_and_takes_them_back(db: Database) -> None:
    job_id, seat = await d.store_one(db), await d.attach(db)
    tokens = [queue_token(d.NAMESPACE, d.QUEUE)]

    async def end() -> list[UUID]:
        taken = await db.run(
            lambda c: end_session(c, seat.session_id, seat.attachment, "test", crashed=True)
        )
        return [row["job_id"] for row in taken.rows]

    async with db.transaction() as connection:
        assert (await claim_at_once(connection, [job_id], tokens, [seat])).rows
        ending = asyncio.create_task(end())
        await d.blocked(db)
        assert not ending.done()
    assert await ending == [job_id]
    assert (await d.job(db, job_id))["state"] == "QUEUED"


@pytest.mark.parametrize("change", ["dispatch_paused = true", "max_running = 1"])
async def test_one_that_waits_for_a_change_of_its_queue_goes_by_it(
    db: Database, change: str
) -> None:
    job_id, seat = await d.store_one(db), await d.attach(db)
    async with db.transaction() as connection:
        await connection.execute("SELECT 1 FROM jobmesh.queues FOR UPDATE")
        await connection.execute(f"UPDATE jobmesh.queues SET {change}")
        claiming = asyncio.create_task(take(db, [job_id], seat))
        await d.blocked(db)
    assert (await claiming).rows == []


async def test_one_that_waits_for_a_cancel_leaves_the_job_cancelled(db: Database) -> None:
    job_id, seat = await d.store_one(db), await d.attach(db)
    async with db.transaction() as connection:
        await cancel(connection, d.NAMESPACE, job_id, "no more", None)
        claiming = asyncio.create_task(take(db, [job_id], seat))
        await d.blocked(db)
    assert (await claiming).rows == []
    assert (await d.job(db, job_id))["state"] == "CANCELLED"


async def test_one_that_waits_for_a_change_of_the_job_claims_what_it_has_become(
    db: Database,
) -> None:
    job_id, seat = await d.store_one(db), await d.attach(db)
    async with db.transaction() as connection:
        await connection.execute("UPDATE jobmesh.jobs_live SET revision = revision + 4")
        claiming = asyncio.create_task(take(db, [job_id], seat))
        await d.blocked(db)
    (row,) = (await claiming).rows
    assert row["revision"] == (await d.job(db, job_id))["revision"] == 6


async def test_a_renewal_does_not_wait_for_it(db: Database) -> None:
    job_id, seat = await d.store_one(db), await d.attach(db)
    tokens = [queue_token(d.NAMESPACE, d.QUEUE)]
    async with db.transaction() as connection:
        await claim_at_once(connection, [job_id], tokens, [seat])
        renewed = await asyncio.wait_for(
            db.fetch("UPDATE jobmesh.sessions SET counter = counter + 1 RETURNING session_id"), 5
        )
    assert [row["session_id"] for row in renewed] == [seat.session_id]
