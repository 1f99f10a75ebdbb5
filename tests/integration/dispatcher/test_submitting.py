"""Storing jobs: once for each submission, however often its call is sent."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from jobmesh.errors import RequestIdReused
from jobmesh_dispatcher.database import Database
from jobmesh_dispatcher.store.submit import Call, Refused, Stored, store_calls
from tests.support import decisions as d


@pytest.fixture
async def db(database: str) -> AsyncIterator[Database]:
    async with d.opened(database) as opened:
        await d.make_queue(opened)
        yield opened


async def test_a_stored_job_is_queued_and_its_wakeup_is_owed(db: Database) -> None:
    job_id = await d.store_one(db)
    row = await d.job(db, job_id)
    assert (row["state"], row["revision"], row["attempt"]) == ("QUEUED", 1, 0)
    assert await d.awake(db) == {job_id}


async def test_a_job_for_later_is_scheduled_and_owed_nothing(db: Database) -> None:
    later = d.submission()
    later.spec.delay.FromSeconds(60)
    await d.store(db, later)
    assert (await d.job(db, later.job_id))["state"] == "SCHEDULED"
    assert await d.awake(db) == set()


async def test_a_call_that_is_sent_again_stores_nothing_twice(db: Database) -> None:
    operation, jobs = d.uid(), [d.submission(), d.submission(request_id="r")]
    first = await d.store(db, *jobs, operation=operation)
    again = await d.store(db, *jobs, operation=operation)
    assert [o.job_id for o in first if isinstance(o, Stored)] == [j.job_id for j in jobs]
    assert all(isinstance(o, Stored) and o.created and o.row is None for o in again)


async def test_a_call_that_is_sent_again_after_its_job_has_ended_finds_it(db: Database) -> None:
    operation, job = d.uid(), d.submission()
    await d.store(db, job, operation=operation)
    seat = await d.attach(db)
    (lease,) = d.leases(await d.claim_all(db, [job.job_id], seat))
    await d.report(db, d.succeeded(lease))
    await d.store(db, job, operation=operation)
    assert (await d.job(db, job.job_id))["state"] == "SUCCEEDED"  # one row, and still the same


async def test_one_request_id_is_one_job_for_any_number_of_callers(db: Database) -> None:
    submissions = [d.submission(request_id="same") for _ in range(20)]
    outcomes = await asyncio.gather(*(d.store(db, s) for s in submissions))
    ids = {o.job_id for (o,) in outcomes if isinstance(o, Stored)}
    assert len(ids) == 1
    assert sum(o.created for (o,) in outcomes if isinstance(o, Stored)) == 1
    assert await db.fetch("SELECT count(*) AS n FROM jobmesh.jobs_live") != []
    assert (await db.fetch("SELECT count(*) AS n FROM jobmesh.jobs_live"))[0]["n"] == 1


async def test_one_request_id_twice_in_one_transaction_is_one_job(db: Database) -> None:
    calls = [Call(d.uid(), [d.submission(request_id="same")], False) for _ in range(3)]
    outcomes, _ = await db.run(lambda c: store_calls(c, calls))
    assert len({o.job_id for o in outcomes if isinstance(o, Stored)}) == 1


async def test_a_request_id_for_other_content_is_refused_and_named(db: Database) -> None:
    first = d.submission(request_id="r", digest=b"one")
    await d.store(db, first)
    (outcome,) = await d.store(db, d.submission(request_id="r", digest=b"two"))
    assert isinstance(outcome, RequestIdReused)


async def test_all_or_nothing_writes_nothing_if_one_is_refused(db: Database) -> None:
    await d.store(db, d.submission(request_id="r", digest=b"one"))
    call = Call(d.uid(), [d.submission(), d.submission(request_id="r", digest=b"two")], True)
    with pytest.raises(Refused):
        await db.run(lambda c: store_calls(c, [call]))
    assert (await db.fetch("SELECT count(*) AS n FROM jobmesh.jobs_live"))[0]["n"] == 1
