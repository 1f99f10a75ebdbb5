"""Claims, reports and the ends of sessions, in every order in which they can meet."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING
from uuid import UUID, uuid4

import pytest
from asyncpg import DeadlockDetectedError

from jobmesh.errors import NotFound, RevisionMismatch, WrongState
from jobmesh.states import TRANSITIONS, State
from jobmesh.v1.job_service_pb2 import RetryJobRequest
from jobmesh_dispatcher.claiming import Seat
from jobmesh_dispatcher.database import Database
from jobmesh_dispatcher.queue_token import queue_token
from jobmesh_dispatcher.store.cancel import cancel
from jobmesh_dispatcher.store.claim import CLAIM_BYTES, Claimed, claim, claim_held
from jobmesh_dispatcher.store.finish import record
from jobmesh_dispatcher.store.promote import promote
from jobmesh_dispatcher.store.revive import revive, revive_once
from jobmesh_dispatcher.store.sessions import TakenBack, end_session, take_back
from jobmesh_dispatcher.store.undelivered import charge
from tests.support import decisions as d
from tests.support.wait import until

if TYPE_CHECKING:
    from jobmesh_dispatcher.database import Connection


@pytest.fixture
async def db(database: str) -> AsyncIterator[Database]:
    async with d.opened(database) as opened:
        await d.make_queue(opened)
        yield opened


async def end(db: Database, seat: Seat, *, crashed: bool = True) -> TakenBack:
    return await db.run(
        lambda c: end_session(c, seat.session_id, seat.attachment, "test", crashed=crashed)
    )


async def waits_for_lock(db: Database) -> bool:
    rows = await db.fetch(
        """SELECT 1 FROM pg_stat_activity
           WHERE wait_event_type = 'Lock' AND datname = current_database()"""
    )
    return bool(rows)


async def test_a_claim_gives_a_lease_under_a_new_attempt(db: Database) -> None:
    job_id = await d.store_one(db)
    seat = await d.attach(db)
    (lease,) = d.leases(await d.claim_all(db, [job_id], seat))
    row = await d.job(db, job_id)
    assert (row["state"], row["attempt"], row["session_id"]) == ("RUNNING", 1, seat.session_id)
    assert lease.attempt == 1


async def test_a_job_delivered_ten_times_at_once_is_claimed_once(db: Database) -> None:
    job_id = await d.store_one(db)
    seats = [await d.attach(db) for _ in range(10)]
    claims = await asyncio.gather(*(d.claim_all(db, [job_id], seat) for seat in seats))
    assert sum(len(claimed.rows) for claimed in claims) == 1
    assert (await d.job(db, job_id))["attempt"] == 1


async def test_a_claim_that_would_be_too_large_leaves_the_last_for_another(db: Database) -> None:
    jobs = [await d.store_one(db) for _ in range(20)]
    await d.swell(db, CLAIM_BYTES // 8)
    seat = await d.attach(db, free=20)
    left = jobs
    for number in (8, 8, 4):
        result = await d.claim_all(db, left, seat)
        assert {row["job_id"] for row in result.rows} == set(left[:number])
        assert result.left == left[number:]
        left = result.left
    assert left == []


async def test_parked_jobs_are_taken_in_portions_that_are_not_too_large(db: Database) -> None:
    jobs = [await d.store_one(db) for _ in range(20)]
    await d.claim_all(db, jobs, await d.attach(db, types=["another"]))
    await d.swell(db, CLAIM_BYTES // 8)
    seat = await d.attach(db, free=20)
    portions = [await db.run(lambda c: claim_held(c, seat)) for _ in range(4)]
    assert [len(portion.rows) for portion in portions] == [8, 8, 4, 0]
    assert len(portions[0].left) == 12


async def test_a_claim_that_is_made_again_has_the_same_room(db: Database) -> None:
    job_id = await d.store_one(db)
    seat = await d.attach(db, free=1)
    tries: list[int] = []

    async def act(connection: Connection) -> Claimed:
        tries.append(len(tries))
        claimed = await claim(connection, [job_id], [queue_token("default", "default")], [seat])
        if len(tries) == 1:
            raise DeadlockDetectedError("as if it had met one")
        return claimed

    assert [row["job_id"] for row in (await db.run(act)).rows] == [job_id]


async def test_a_session_that_is_ended_waits_for_the_claim_and_takes_its_job_back(
    db: Database,
) -> None:
    job_id = await d.store_one(db)
    seat = await d.attach(db)
    async with db.transaction() as connection:
        claimed = await claim(connection, [job_id], [queue_token("default", "default")], [seat])
        ending = asyncio.create_task(end(db, seat))
        await until(lambda: waits_for_lock(db), timeout=5, describe=lambda: "no wait for a lock")
        assert not ending.done()
    taken = await ending
    assert [row["job_id"] for row in taken.rows] == [job_id]
    assert (await d.job(db, job_id))["state"] == "QUEUED"
    (lease,) = d.leases(claimed)
    recorded = await d.report(db, d.succeeded(lease))
    assert recorded.settled == set()  # LEASE_LOST


async def test_a_claim_that_waits_for_the_end_of_its_session_gets_nothing(db: Database) -> None:
    job_id = await d.store_one(db)
    seat = await d.attach(db)
    async with db.transaction() as connection:
        await end_session(connection, seat.session_id, seat.attachment, "test", crashed=True)
        claiming = asyncio.create_task(d.claim_all(db, [job_id], seat))
        await until(lambda: waits_for_lock(db), timeout=5, describe=lambda: "no wait for a lock")
    claimed = await claiming
    assert claimed.rows == []
    row = await d.job(db, job_id)
    assert (row["state"], row["hold_reason"]) == ("QUEUED", "NO_RUNNER")


async def test_a_claim_under_an_attachment_that_moved_gets_nothing(db: Database) -> None:
    job_id = await d.store_one(db)
    old = await d.attach(db)
    new = Seat(old.session_id, d.uid(), "runner", "default", frozenset({"t"}), None, 4, 4, 0)
    assert await d.reattach(db, new)
    assert (await d.claim_all(db, [job_id], old)).rows == []
    assert (await end(db, old)).ended is False  # nor can it be ended under it
    assert len((await db.run(lambda c: claim_held(c, new))).rows) == 1


async def test_an_ended_session_cannot_come_back(db: Database) -> None:
    seat = await d.attach(db)
    await end(db, seat)
    assert not await d.reattach(db, seat)


async def test_a_renewal_is_not_held_up_by_a_claim(db: Database) -> None:
    job_id = await d.store_one(db)
    seat = await d.attach(db)
    async with db.transaction() as connection:
        await claim(connection, [job_id], [queue_token("default", "default")], [seat])
        rows = await asyncio.wait_for(
            db.fetch(
                """UPDATE jobmesh.sessions SET counter = counter + 1
                   WHERE session_id = $1 RETURNING 1""",
                seat.session_id,
            ),
            5,
        )
    assert len(rows) == 1


async def test_a_repeated_report_is_answered_and_writes_nothing(db: Database) -> None:
    job_id = await d.store_one(db)
    (lease,) = d.leases(await d.claim_all(db, [job_id], await d.attach(db)))
    first = await d.report(db, d.succeeded(lease))
    before = await d.job(db, job_id)
    again = await d.report(db, d.succeeded(lease))
    assert first.settled == again.settled == {lease.key}
    assert again.rows == []
    assert await d.job(db, job_id) == before


async def test_a_repeated_report_of_a_failure_is_answered_while_the_job_waits(db: Database) -> None:
    job_id = await d.store_one(db)
    (lease,) = d.leases(await d.claim_all(db, [job_id], await d.attach(db)))
    await d.report(db, d.failed(lease))
    assert (await d.job(db, job_id))["state"] == "RETRYING"
    assert (await d.report(db, d.failed(lease))).settled == {lease.key}
    assert (await d.job(db, job_id))["failures"] == 1


async def test_what_an_old_attempt_reports_changes_nothing(db: Database) -> None:
    job_id = await d.store_one(db)
    old = await d.attach(db)
    (first,) = d.leases(await d.claim_all(db, [job_id], old))
    await end(db, old)
    (second,) = d.leases(await d.claim_all(db, [job_id], await d.attach(db)))
    assert (await d.report(db, d.succeeded(first))).settled == set()
    assert (await d.report(db, d.succeeded(second))).settled == {second.key}
    row = await d.job(db, job_id)
    assert [a["outcome"] for a in row["attempts"]] == ["LOST", "SUCCEEDED"]


async def test_attempts_do_not_overlap_even_if_the_clock_goes_back(db: Database) -> None:
    job_id = await d.store_one(db)
    first = await d.attach(db)
    await d.claim_all(db, [job_id], first)
    await end(db, first)
    # As if the first attempt had ended by a clock that was five minutes ahead.
    await db.fetch(
        """UPDATE jobmesh.jobs_live SET attempts[1].end_time = now() + interval '5 min',
               history[3].time = now() + interval '5 min'
           WHERE job_id = $1""",
        job_id,
    )
    (lease,) = d.leases(await d.claim_all(db, [job_id], await d.attach(db)))
    await d.report(db, d.succeeded(lease, run_seconds=3))
    one, two = (await d.job(db, job_id))["attempts"]
    assert one["end_time"] <= two["start_time"] <= two["end_time"]


async def test_a_crash_charges_only_what_had_started(db: Database) -> None:
    started, waiting = await d.store_one(db), await d.store_one(db)
    seat = await d.attach(db)
    await d.claim_all(db, [started, waiting], seat)
    await db.fetch("UPDATE jobmesh.jobs_live SET start_time = now() WHERE job_id = $1", started)
    await end(db, seat)
    assert (await d.job(db, started))["crashes"] == 1
    assert (await d.job(db, waiting))["crashes"] == 0
    assert {started, waiting} <= await d.awake(db)


async def test_a_job_that_crashes_too_often_dies(db: Database) -> None:
    job_id = await d.store_one(db)
    await db.fetch("UPDATE jobmesh.jobs_live SET crashes = 3 WHERE job_id = $1", job_id)
    seat = await d.attach(db)
    await d.claim_all(db, [job_id], seat)
    await db.fetch("UPDATE jobmesh.jobs_live SET start_time = now() WHERE job_id = $1", job_id)
    await end(db, seat)
    row = await d.job(db, job_id)
    assert (row["state"], row["reason"], row["crashes"]) == ("DEAD", "CRASHED", 4)
    subjects = await db.fetch("SELECT subject FROM jobmesh.outbox WHERE subject LIKE 'jm.dead.%'")
    assert len(subjects) == 1


async def test_a_clean_end_charges_nothing(db: Database) -> None:
    job_id = await d.store_one(db)
    seat = await d.attach(db)
    await d.claim_all(db, [job_id], seat)
    await db.fetch("UPDATE jobmesh.jobs_live SET start_time = now() WHERE job_id = $1", job_id)
    await end(db, seat, crashed=False)
    assert (await d.job(db, job_id))["crashes"] == 0


async def test_whoever_takes_back_waits_for_the_queue_before_it_locks_the_count(
    db: Database,
) -> None:
    """As every claim, or it and a change of the queue would wait for each other."""
    await d.make_queue(db, "few", max_running=1)
    job_id = await d.store_one(db, queue="few")
    seat = await d.attach(db)
    await d.claim_all(db, [job_id], seat, queue="few")
    async with db.transaction() as changing:
        await changing.execute("SELECT 1 FROM jobmesh.queues WHERE name = 'few' FOR UPDATE")
        taking = asyncio.create_task(
            db.run(lambda c: take_back(c, seat.session_id, None, crashed=False))
        )
        await d.blocked(db)
        await changing.execute("SELECT 1 FROM jobmesh.queue_slots FOR UPDATE NOWAIT")
    assert len((await taking).rows) == 1


async def test_only_jobs_that_are_named_are_taken_back(db: Database) -> None:
    jobs = [await d.store_one(db) for _ in range(3)]
    seat = await d.attach(db)
    await d.claim_all(db, jobs, seat)
    taken = await db.run(lambda c: take_back(c, seat.session_id, jobs[:1], crashed=False))
    assert [row["job_id"] for row in taken.rows] == jobs[:1]
    assert [(await d.job(db, j))["state"] for j in jobs] == ["QUEUED", "RUNNING", "RUNNING"]


async def test_revisions_grow_by_one_and_the_history_holds_them_all(db: Database) -> None:
    job_id = await d.store_one(db)
    for _ in range(3):
        (lease,) = d.leases(await d.claim_all(db, [job_id], await d.attach(db)))
        await d.report(db, d.interrupted(lease))
    (lease,) = d.leases(await d.claim_all(db, [job_id], await d.attach(db)))
    await d.report(db, d.succeeded(lease))
    history = (await d.job(db, job_id))["history"]
    assert [h["revision"] for h in history] == list(range(1, 10))
    states = [State(h["state"]) for h in history]
    assert all(new in TRANSITIONS[old] for old, new in itertools.pairwise(states))


async def test_a_limit_is_never_passed_by_concurrent_claims(db: Database) -> None:
    await d.make_queue(db, "few", max_running=3)
    jobs = [await d.store_one(db, queue="few") for _ in range(40)]
    seats = [await d.attach(db, free=40) for _ in range(8)]
    claims = await asyncio.gather(
        *(d.claim_all(db, jobs[n::8], seat, queue="few") for n, seat in enumerate(seats))
    )
    assert sum(len(claimed.rows) for claimed in claims) == 3
    held = [(await d.job(db, j))["hold_reason"] for j in jobs]
    assert held.count("MAX_RUNNING") == 37


async def test_a_finish_gives_its_slot_back_and_wakes_the_oldest(db: Database) -> None:
    await d.make_queue(db, "few", max_running=1)
    jobs = [await d.store_one(db, queue="few") for _ in range(3)]
    seat = await d.attach(db)
    (lease,) = d.leases(await d.claim_all(db, jobs, seat, queue="few"))
    await db.fetch("DELETE FROM jobmesh.outbox")
    await d.report(db, d.succeeded(lease))
    waiting = [j for j in jobs if j != lease.job_id]
    assert await d.awake(db) == {waiting[0]}
    assert (await d.job(db, waiting[0]))["hold_reason"] is None
    assert (await d.job(db, waiting[1]))["hold_reason"] == "MAX_RUNNING"


async def test_every_way_out_of_running_gives_the_slot_back(db: Database) -> None:
    await d.make_queue(db, "few", max_running=1)

    async def run_one() -> tuple[UUID, Seat]:
        job_id, seat = await d.store_one(db, queue="few"), await d.attach(db)
        assert len((await d.claim_all(db, [job_id], seat, queue="few")).rows) == 1
        return job_id, seat

    async def finish(job_id: UUID) -> None:
        row = await d.job(db, job_id)
        if row["state"] == "QUEUED":
            await db.run(lambda c: cancel(c, "default", job_id, "", None))

    for how in (d.succeeded, d.failed, d.interrupted):
        job_id, seat = await d.store_one(db, queue="few"), await d.attach(db)
        (lease,) = d.leases(await d.claim_all(db, [job_id], seat, queue="few"))
        await d.report(db, how(lease))
        await finish(job_id)
    for crashed in (True, False):
        job_id, seat = await run_one()
        await end(db, seat, crashed=crashed)
        await finish(job_id)
    job_id, seat = await run_one()
    await db.run(lambda c: cancel(c, "default", job_id, "", None))
    await end(db, seat)
    assert (await d.job(db, job_id))["state"] == "CANCELLED"
    rows = await db.fetch("SELECT running FROM jobmesh.queue_slots WHERE queue = 'few'")
    assert rows[0]["running"] == 0


async def test_cancelling_ends_what_waits_and_asks_what_runs(db: Database) -> None:
    waiting, running = await d.store_one(db), await d.store_one(db)
    seat = await d.attach(db)
    (lease,) = d.leases(await d.claim_all(db, [running], seat))
    await db.run(lambda c: cancel(c, "default", waiting, "enough", None))
    asked = await db.run(lambda c: cancel(c, "default", running, "enough", None))
    assert asked.session_id == seat.session_id
    assert (await d.job(db, waiting))["state"] == "CANCELLED"
    assert (await d.job(db, running))["state"] == "CANCELLING"
    again = await db.run(lambda c: cancel(c, "default", running, "enough", None))
    assert again.row is None
    await d.report(db, d.failed(lease))  # the handler raised while it was being stopped
    assert (await d.job(db, running))["state"] == "CANCELLED"


async def test_cancelling_what_has_ended_says_so(db: Database) -> None:
    job_id = await d.store_one(db)
    (lease,) = d.leases(await d.claim_all(db, [job_id], await d.attach(db)))
    await d.report(db, d.succeeded(lease))
    with pytest.raises(WrongState):
        await db.run(lambda c: cancel(c, "default", job_id, "", None))
    with pytest.raises(NotFound):
        await db.run(lambda c: cancel(c, "default", d.uid(), "", None))
    with pytest.raises(NotFound):
        await db.run(lambda c: cancel(c, "another", job_id, "", None))


async def test_a_retry_goes_on_with_the_attempts(db: Database) -> None:
    job_id = await d.store_one(db)
    (lease,) = d.leases(await d.claim_all(db, [job_id], await d.attach(db)))
    request = RetryJobRequest(job_id=str(job_id))
    with pytest.raises(WrongState):
        await db.run(lambda c: revive(c, "default", request))
    await d.report(db, d.failed(lease, retryable=False))
    assert (await d.job(db, job_id))["state"] == "DEAD"
    await db.run(lambda c: revive(c, "default", request))
    row = await d.job(db, job_id)
    assert (row["state"], row["failures"], row["attempt"]) == ("QUEUED", 0, 1)
    (lease,) = d.leases(await d.claim_all(db, [job_id], await d.attach(db)))
    assert lease.attempt == 2


async def test_two_retries_at_once_are_one(db: Database) -> None:
    job_id = await d.store_one(db)
    (lease,) = d.leases(await d.claim_all(db, [job_id], await d.attach(db)))
    await d.report(db, d.succeeded(lease))
    request = RetryJobRequest(job_id=str(job_id))
    results = await asyncio.gather(
        *(db.run(lambda c: revive(c, "default", request)) for _ in range(5)), return_exceptions=True
    )
    assert sum(not isinstance(r, BaseException) for r in results) == 1
    assert (await d.job(db, job_id))["state"] == "QUEUED"


async def test_a_retry_whose_answer_was_lost_is_not_made_again(db: Database) -> None:
    """Though the job has ended meanwhile, and the caller named no revision."""
    job_id = await d.store_one(db)
    (lease,) = d.leases(await d.claim_all(db, [job_id], await d.attach(db)))
    await d.report(db, d.succeeded(lease))
    request, call = RetryJobRequest(job_id=str(job_id)), uuid4()
    with pytest.raises(NotFound):
        await db.run(lambda c: revive_once(c, call, "another", request))
    rows, messages = await db.run(lambda c: revive_once(c, call, "default", request))
    assert [row["job_id"] for row in rows] == [job_id]
    assert len(messages) == 1
    (lease,) = d.leases(await d.claim_all(db, [job_id], await d.attach(db)))
    await d.report(db, d.succeeded(lease))
    assert await db.run(lambda c: revive_once(c, call, "default", request)) == ([], [])
    assert (await d.job(db, job_id))["state"] == "SUCCEEDED"
    rows, _ = await db.run(lambda c: revive_once(c, uuid4(), "default", request))
    assert [row["state"] for row in rows] == ["QUEUED"]


async def test_a_retry_that_is_repeated_is_told_of_the_revision(db: Database) -> None:
    job_id = await d.store_one(db)
    (lease,) = d.leases(await d.claim_all(db, [job_id], await d.attach(db)))
    await d.report(db, d.succeeded(lease))
    request = RetryJobRequest(job_id=str(job_id), expected_revision=3)
    await db.run(lambda c: revive(c, "default", request))
    for _ in range(2):
        with pytest.raises(RevisionMismatch) as caught:
            await db.run(lambda c: revive(c, "default", request))
        assert caught.value.metadata["actual"] == str((await d.job(db, job_id))["revision"])
        await d.claim_all(db, [job_id], await d.attach(db))


async def test_a_job_that_ends_while_it_is_retried_is_found(db: Database) -> None:
    job_id = await d.store_one(db)
    (lease,) = d.leases(await d.claim_all(db, [job_id], await d.attach(db)))
    request = RetryJobRequest(job_id=str(job_id))
    async with db.transaction() as connection:
        await record(connection, [d.succeeded(lease)])
        retrying = asyncio.create_task(db.run(lambda c: revive(c, "default", request)))
        await until(lambda: _waits_for_a_lock(db))
    await retrying
    assert (await d.job(db, job_id))["state"] == "QUEUED"


async def test_a_job_that_is_retried_while_it_is_cancelled_is_found(db: Database) -> None:
    job_id = await d.store_one(db)
    await db.run(lambda c: cancel(c, "default", job_id, "", None))
    request = RetryJobRequest(job_id=str(job_id))
    async with db.transaction() as connection:
        await revive(connection, "default", request)
        cancelling = asyncio.create_task(
            db.run(lambda c: cancel(c, "default", job_id, "again", None))
        )
        await until(lambda: _waits_for_a_lock(db))
    await cancelling
    assert (await d.job(db, job_id))["state"] == "CANCELLED"


async def _waits_for_a_lock(db: Database) -> bool:
    rows = await db.fetch(
        "SELECT 1 FROM pg_stat_activity "
        "WHERE datname = current_database() AND wait_event_type = 'Lock'"
    )
    return bool(rows)


END_OF_ATTEMPT = ["success", "failure", "interruption", "loss", "cancellation"]


@pytest.mark.parametrize("how", END_OF_ATTEMPT)
async def test_nothing_ends_before_it_began_though_the_clock_is_set_back(
    db: Database, how: str
) -> None:
    job_id = await d.store_one(db)
    seat = await d.attach(db)
    (lease,) = d.leases(await d.claim_all(db, [job_id], seat))
    # What an hour ahead would have left.
    await db.fetch(
        "UPDATE jobmesh.jobs_live SET start_time = now() + interval '1 hour' WHERE job_id = $1",
        job_id,
    )
    if how == "loss":
        await db.run(lambda c: take_back(c, seat.session_id, None, crashed=False))
    elif how == "cancellation":
        await db.run(lambda c: cancel(c, "default", job_id, "", None))
        await d.report(db, d.interrupted(lease))
    else:
        ends = {"success": d.succeeded, "failure": d.failed, "interruption": d.interrupted}
        await d.report(db, ends[how](lease))
    row = await d.job(db, job_id)
    (attempt,) = row["attempts"]
    assert attempt["start_time"] <= attempt["end_time"] == row["history"][-1]["time"]
    if row["state"] == "QUEUED":
        await d.claim_all(db, [job_id], await d.attach(db))
        row = await d.job(db, job_id)
        assert row["claim_time"] >= attempt["end_time"]
    times = [change["time"] for change in row["history"]]
    assert times == sorted(times)
    if row["state"] == "RETRYING":
        waits = await db.fetch(
            "SELECT 1 FROM jobmesh.jobs_live WHERE run_at < now() + interval '1m'"
        )
        assert waits


async def test_what_is_due_is_promoted_once(db: Database) -> None:
    later = d.submission()
    later.spec.delay.FromMilliseconds(1)
    await d.store(db, later)
    await until(lambda: _due(db), timeout=5, describe=lambda: "the job never became due")
    both = await asyncio.gather(*(db.run(lambda c: promote(c, 10)) for _ in range(4)))
    assert sum(len(promoted.rows) for promoted in both) == 1
    assert await d.awake(db) == {later.job_id}


async def _due(db: Database) -> bool:
    rows = await db.fetch("SELECT 1 FROM jobmesh.jobs_live WHERE run_at <= clock_timestamp()")
    return bool(rows)


async def test_an_undeliverable_wakeup_charges_its_jobs_once_and_buries_them_in_the_end(
    db: Database,
) -> None:
    job_id = await d.store_one(db)
    operation = d.uid()
    for _ in range(3):
        await db.run(lambda c: charge(c, operation, "t", [job_id]))
    assert (await d.job(db, job_id))["crashes"] == 1
    for _ in range(3):
        await db.run(lambda c: charge(c, d.uid(), "t", [job_id]))
    row = await d.job(db, job_id)
    assert (row["state"], row["reason"]) == ("DEAD", "MAX_DELIVER")
