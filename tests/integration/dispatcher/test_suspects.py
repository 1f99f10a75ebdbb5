"""Jobs that were on a runner when it was lost: charged, suspected, set apart, cleared."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any
from uuid import UUID

import pytest
from asyncpg import Record

from jobmesh.v1 import runner_service_pb2 as pb
from jobmesh.v1.job_pb2 import JobError, JobSpec
from jobmesh_dispatcher.assignments import assignment_of
from jobmesh_dispatcher.claiming import Candidate, Seat
from jobmesh_dispatcher.database import Database
from jobmesh_dispatcher.lease import Lease
from jobmesh_dispatcher.sql import load
from jobmesh_dispatcher.store.claim import claim_held, claim_lonely
from jobmesh_dispatcher.store.finish import Ended
from jobmesh_dispatcher.store.sessions import end_session
from tests.support import decisions as d


@pytest.fixture
async def db(database: str) -> AsyncIterator[Database]:
    async with d.opened(database) as opened:
        await d.make_queue(opened)
        yield opened


async def start(db: Database, *leases: Lease, seconds_ago: float = 0.0) -> None:
    """Their handlers begin, so long ago."""
    await db.fetch(
        load("start_jobs"),
        [x.job_id for x in leases],
        [x.attempt for x in leases],
        [x.session_id for x in leases],
    )
    await db.fetch(
        """UPDATE jobmesh.jobs_live SET start_time = start_time - make_interval(secs => $2)
           WHERE job_id = ANY ($1::uuid[])""",
        [x.job_id for x in leases],
        seconds_ago,
    )


async def lose(db: Database, seat: Seat, *, crashed: bool = True) -> None:
    await db.run(
        lambda c: end_session(c, seat.session_id, seat.attachment, "test", crashed=crashed)
    )


async def row_of(db: Database, job_id: UUID) -> Record:
    rows = await db.fetch("SELECT * FROM jobmesh.jobs_live WHERE job_id = $1", job_id)
    return rows[0]


async def suspicion(db: Database, *jobs: UUID) -> list[int]:
    return [(await row_of(db, job_id))["suspect"] for job_id in jobs]


async def run_and_lose(db: Database, *jobs: UUID, seconds: float = 0.0, slots: int = 10) -> None:
    """All of them run on one runner, which is lost."""
    seat = await d.attach(db, free=slots)
    leases = d.leases(await d.claim_all(db, jobs, seat))
    assert len(leases) == len(jobs)
    await start(db, *leases, seconds_ago=seconds)
    await lose(db, seat)


def report(lease: Lease, **outcome: Any) -> Ended:
    message = pb.Report(job_id=str(lease.job_id), attempt=lease.attempt, run_seconds=1.0, **outcome)
    return Ended(message, lease)


async def test_what_ran_on_a_lost_runner_is_suspected_and_told_so(db: Database) -> None:
    job_id = await d.store_one(db)
    await run_and_lose(db, job_id, seconds=5)
    row = await row_of(db, job_id)
    assert (row["suspect"], row["crashes"]) == (1, 1)
    assert 5 <= row["suspect_seconds"] < 15
    claimed = await d.claim_all(db, [job_id], await d.attach(db))
    lease, assignment = assignment_of(claimed.rows[0])
    assert (lease.suspect, lease.crashes, assignment.suspect) == (1, 1, True)


async def test_what_a_clean_end_gives_back_is_not_suspected(db: Database) -> None:
    job_id = await d.store_one(db)
    seat = await d.attach(db)
    await start(db, *d.leases(await d.claim_all(db, [job_id], seat)))
    await lose(db, seat, crashed=False)
    assert await suspicion(db, job_id) == [0]


async def test_as_many_as_may_have_begun_unheard_are_suspected_and_not_charged(
    db: Database,
) -> None:
    """A handler that ends its process at once does so before anybody hears that it began."""
    jobs = [await d.store_one(db) for _ in range(5)]
    seat = await d.attach(db, free=10)
    seat.slots = 3
    await d.reattach(db, seat)
    leases = []
    for job_id in jobs:  # one after the other, as they were sent
        leases += d.leases(await d.claim_all(db, [job_id], seat))
    await start(db, leases[1])
    await lose(db, seat)
    assert await suspicion(db, *jobs) == [1, 1, 1, 0, 0]
    assert [(await row_of(db, job_id))["crashes"] for job_id in jobs] == [0, 1, 0, 0, 0]


async def test_a_report_of_its_handler_clears_a_suspect(db: Database) -> None:
    job_id = await d.store_one(db)
    await run_and_lose(db, job_id)
    (lease,) = d.leases(await d.claim_all(db, [job_id], await d.attach(db)))
    await d.report(db, d.failed(lease))
    row = await row_of(db, job_id)
    assert (row["state"], row["suspect"], row["suspect_seconds"]) == ("RETRYING", 0, None)
    assert row["crashes"] == 1  # which is not forgotten


async def test_an_interruption_proves_nothing(db: Database) -> None:
    job_id = await d.store_one(db)
    await run_and_lose(db, job_id)
    (lease,) = d.leases(await d.claim_all(db, [job_id], await d.attach(db)))
    await d.report(db, d.interrupted(lease))
    assert await suspicion(db, job_id) == [1]


async def clear(db: Database, lease: Lease) -> list[Record]:
    return await db.fetch(
        load("clear_suspects"), [lease.job_id], [lease.attempt], [lease.session_id]
    )


async def test_running_on_for_longer_than_before_clears_a_suspect(db: Database) -> None:
    job_id = await d.store_one(db)
    await run_and_lose(db, job_id, seconds=4)
    seat = await d.attach(db)
    (lease,) = d.leases(await d.claim_all(db, [job_id], seat))
    assert await clear(db, lease) == []  # not begun
    await start(db, lease, seconds_ago=5)
    assert await clear(db, lease) == []
    await start(db, lease, seconds_ago=20)
    other = Lease(**{f: getattr(lease, f) for f in lease.__slots__} | {"attempt": 1})
    assert await clear(db, other) == []  # of an earlier attempt
    assert [row["job_id"] for row in await clear(db, lease)] == [job_id]
    assert await suspicion(db, job_id) == [0]


async def test_one_that_ends_its_own_process_stays_a_suspect_and_dies_at_the_fourth(
    db: Database,
) -> None:
    job_id = await d.store_one(db)
    await run_and_lose(db, job_id)
    error = JobError(type="HandlerProcessDied", message="SIGSEGV", retryable=True)
    for crashes in (2, 3, 4):
        await db.fetch(
            """UPDATE jobmesh.jobs_live SET state = 'QUEUED', run_at = NULL, queued_at = now()
               WHERE job_id = $1""",
            job_id,
        )
        (lease,) = d.leases(await d.claim_all(db, [job_id], await d.attach(db)))
        await d.report(db, report(lease, failed=pb.Failed(error=error, crashed=True)))
        job = await d.job(db, job_id)
        assert (job["reason"], job["crashes"], job["failures"]) == ("CRASHED", crashes, 0)
        assert job["state"] == ("DEAD" if crashes == 4 else "RETRYING")
    assert await d.awake(db) <= {job_id}


async def lonely(db: Database, seconds: float = 0.0) -> UUID:
    """A job that two runners were lost under, queued so long ago."""
    job_id = await d.store_one(db)
    await run_and_lose(db, job_id, seconds=seconds)
    await run_and_lose(db, job_id, seconds=seconds)
    return job_id


async def test_one_that_lost_a_second_runner_waits_for_one_of_its_own(db: Database) -> None:
    job_id = await lonely(db)
    assert await suspicion(db, job_id) == [2]
    neighbour = await d.store_one(db)
    busy = await d.attach(db)
    busy.running = 1
    claimed = await d.claim_all(db, [job_id, neighbour], busy)
    assert [row["job_id"] for row in claimed.rows] == [neighbour]
    assert claimed.lonely
    assert (await d.job(db, job_id))["hold_reason"] == "NO_RUNNER"
    assert (await db.run(lambda c: claim_held(c, busy))).rows == []  # not as its neighbour
    rows = await db.fetch(load("lonely_jobs"), 10)
    assert [row["job_id"] for row in rows] == [job_id]
    candidate, idle = Candidate(**rows[0], alone=True), await d.attach(db)
    claimed = await db.run(lambda c: claim_lonely(c, candidate, idle))
    assert [row["job_id"] for row in claimed.rows] == [job_id]
    again = await db.run(lambda c: claim_lonely(c, candidate, idle))
    assert again.rows == []  # another dispatcher was faster


async def test_it_does_not_wait_for_a_runner_of_its_own_for_ever(db: Database) -> None:
    job_id = await lonely(db)
    busy = await d.attach(db)
    busy.running = 1
    await d.claim_all(db, [job_id], busy)
    await db.fetch("UPDATE jobmesh.jobs_live SET queued_at = queued_at - interval '61 seconds'")
    assert await db.fetch(load("lonely_jobs"), 10) == []
    claimed = await db.run(lambda c: claim_held(c, busy))
    assert [row["job_id"] for row in claimed.rows] == [job_id]


async def test_what_is_known_of_a_suspect_is_read_again_when_its_runner_moves(
    db: Database,
) -> None:
    job_id = await lonely(db)
    seat = await d.attach(db)
    await d.claim_all(db, [job_id], seat)
    (row,) = await db.fetch(load("session_jobs"), seat.session_id)
    lease = Lease.from_row(row, JobSpec())
    assert (lease.suspect, lease.crashes) == (2, 2)
