"""A slot of a limited queue goes from the job that ends to the next that waits for it."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Sequence
from typing import Any
from uuid import UUID

import pytest

from jobmesh_dispatcher.attachment import Attachment
from jobmesh_dispatcher.claiming import Seat
from jobmesh_dispatcher.claims import CLAIM_SECONDS, Claims
from jobmesh_dispatcher.database import Database
from jobmesh_dispatcher.lease import Lease
from jobmesh_dispatcher.queue_token import queue_token
from jobmesh_dispatcher.store.claim import CLAIM_BYTES
from jobmesh_dispatcher.store.finish import Ended, Recorded, record
from jobmesh_dispatcher.succession import SHARED
from tests.support import decisions as d
from tests.support.dispatchers import Dispatcher, dispatcher, hello

FEW = "few"


@pytest.fixture
async def db(database: str) -> AsyncIterator[Database]:
    async with d.opened(database) as opened:
        await d.make_queue(opened, FEW, max_running=1)
        yield opened


@pytest.fixture
async def one(db: Database) -> AsyncIterator[Dispatcher]:
    async with dispatcher(db) as started:
        yield started


async def crowd(db: Database, seat: Seat, number: int = 3, **spec: Any) -> tuple[Lease, list[UUID]]:
    """A job that runs, and those that wait for its slot; nothing is owed of before."""
    first = await d.store_one(db, queue=FEW)
    waiting = [await d.store_one(db, queue=FEW, **spec) for _ in range(number)]
    (lease,) = d.leases(await d.claim_all(db, [first, *waiting], seat, queue=FEW))
    await db.fetch("DELETE FROM jobmesh.outbox")
    return lease, waiting


async def hand_over(db: Database, ended: Sequence[Ended], *seats: Seat) -> Recorded:
    return await db.run(lambda c: record(c, ended, seats))


async def running(db: Database) -> int:
    """What the queue's count says; it has to be true."""
    (row,) = await db.fetch(
        """SELECT running, (SELECT count(*) FROM jobmesh.jobs_live WHERE slot) AS true
           FROM jobmesh.queue_slots"""
    )
    assert row["running"] == row["true"]
    return int(row["running"])


@pytest.mark.parametrize("how", [d.succeeded, d.failed, d.interrupted])
async def test_the_next_job_takes_the_slot_over(db: Database, how: Any) -> None:
    seat = await d.attach(db)
    lease, waiting = await crowd(db, seat)
    recorded = await hand_over(db, [how(lease)], seat)
    assert recorded.settled == {lease.key}
    (row,) = recorded.handed.rows
    assert (row["job_id"], row["session_id"]) == (waiting[0], seat.session_id)
    assert (row["state"], row["attempt"], row["slot"]) == ("RUNNING", 1, True)
    assert await running(db) == 1
    assert not await d.awake(db) & set(waiting), "it is woken, too"


async def test_who_waited_long_goes_before_who_is_important(db: Database) -> None:
    seat = await d.attach(db)
    lease, (low, *_) = await crowd(db, seat, priority=0)
    await db.fetch(
        "UPDATE jobmesh.jobs_live SET queued_at = queued_at - interval '1 hour' WHERE job_id = $1",
        low,
    )
    important = [await d.store_one(db, queue=FEW, priority=9) for _ in range(3)]
    await d.claim_all(db, important, seat, queue=FEW)
    order = []
    for _ in range(4):
        (lease,) = d.leases((await hand_over(db, [d.succeeded(lease)], seat)).handed)
        order.append(lease.job_id)
    assert order == [low, *important]


NOT_HANDED = {
    "its session has ended": "UPDATE jobmesh.sessions SET end_time = clock_timestamp()",
    "its session has moved": "UPDATE jobmesh.sessions SET attachment = gen_random_uuid()",
    "it is to be alone": "UPDATE jobmesh.jobs_live SET suspect = 2 WHERE state = 'QUEUED'",
    "there is no limit any more": "UPDATE jobmesh.queues SET max_running = NULL",
}


@pytest.mark.parametrize("why", NOT_HANDED)
async def test_a_job_that_cannot_take_it_over_is_woken(db: Database, why: str) -> None:
    seat = await d.attach(db)
    lease, waiting = await crowd(db, seat)
    await db.fetch(NOT_HANDED[why])
    recorded = await hand_over(db, [d.succeeded(lease)], seat)
    assert not recorded.handed.rows
    assert await d.awake(db) == {waiting[0]}
    assert await running(db) == 0


async def test_a_slot_of_a_queue_that_is_paused_is_only_given_back(db: Database) -> None:
    seat = await d.attach(db)
    lease, waiting = await crowd(db, seat)
    await db.fetch("UPDATE jobmesh.queues SET dispatch_paused = true")
    assert not (await hand_over(db, [d.succeeded(lease)], seat)).handed.rows
    assert {(await d.job(db, j))["hold_reason"] for j in waiting} == {"MAX_RUNNING"}
    assert await running(db) == 0


async def test_a_slot_above_a_limit_that_was_lowered_is_only_given_back(db: Database) -> None:
    await db.fetch("UPDATE jobmesh.queues SET max_running = 3")
    seat = await d.attach(db)
    jobs = [await d.store_one(db, queue=FEW) for _ in range(5)]
    running_jobs = d.leases(await d.claim_all(db, jobs, seat, queue=FEW))
    await db.fetch("UPDATE jobmesh.queues SET max_running = 1")
    handed = [
        (await hand_over(db, [d.succeeded(lease)], seat)).handed.rows for lease in running_jobs
    ]
    assert [len(rows) for rows in handed] == [0, 0, 1]
    assert await running(db) == 1


async def test_a_job_that_no_runner_here_knows_keeps_its_turn(db: Database) -> None:
    seat = await d.attach(db)
    lease, (strange, *others) = await crowd(db, seat)
    await db.fetch("UPDATE jobmesh.jobs_live SET type = 'strange' WHERE job_id = $1", strange)
    assert not (await hand_over(db, [d.succeeded(lease)], seat)).handed.rows
    assert await d.awake(db) == {strange}
    assert {(await d.job(db, j))["hold_reason"] for j in others} == {"MAX_RUNNING"}


async def test_a_job_that_has_expired_makes_room_for_the_next(db: Database) -> None:
    seat = await d.attach(db)
    lease, (late, following, _) = await crowd(db, seat)
    await db.fetch("UPDATE jobmesh.jobs_live SET expire_at = now() WHERE job_id = $1", late)
    recorded = await hand_over(db, [d.succeeded(lease)], seat)
    assert [row["job_id"] for row in recorded.handed.expired] == [late]
    assert await d.awake(db) == {following}


async def test_room_that_was_there_before_wakes_nobody_more(db: Database) -> None:
    """Whoever made the room has woken somebody for it, who is on the way."""
    seat = await d.attach(db)
    lease, waiting = await crowd(db, seat)
    await db.fetch("UPDATE jobmesh.queues SET max_running = 3")
    (row,) = (await hand_over(db, [d.succeeded(lease)], seat)).handed.rows
    assert row["job_id"] == waiting[0]
    assert not await d.awake(db)


async def test_what_ends_together_is_handed_over_queue_by_queue(db: Database) -> None:
    await d.make_queue(db, "other", max_running=1)
    seat = await d.attach(db)
    lease, (following, *_) = await crowd(db, seat)
    jobs = [await d.store_one(db, queue="other") for _ in range(3)]
    (beside,) = d.leases(await d.claim_all(db, jobs, seat, queue="other"))
    recorded = await hand_over(db, [d.succeeded(lease), d.succeeded(beside)], seat)
    next_of_other = next(job for job in jobs if job != beside.job_id)
    assert {row["job_id"] for row in recorded.handed.rows} == {following, next_of_other}


async def test_a_handover_that_would_be_too_large_leaves_the_last_to_the_broker(
    db: Database,
) -> None:
    await db.fetch("UPDATE jobmesh.queues SET max_running = 4")
    seat = await d.attach(db)
    jobs = [await d.store_one(db, queue=FEW) for _ in range(8)]
    ended = d.leases(await d.claim_all(db, jobs, seat, queue=FEW))
    await d.swell(db, CLAIM_BYTES // 2)
    await db.fetch("DELETE FROM jobmesh.outbox")
    recorded = await hand_over(db, list(map(d.succeeded, ended)), seat)
    assert [len(recorded.handed.rows), len(await d.awake(db))] == [2, 2]
    assert await running(db) == 2


async def test_the_count_of_a_queue_without_a_limit_is_locked_before_jobs_are(
    db: Database,
) -> None:
    """As by the end of a session, which would wait in a circle otherwise."""
    seat = await d.attach(db)
    lease, _ = await crowd(db, seat)
    await db.fetch("UPDATE jobmesh.queues SET max_running = NULL")
    async with db.transaction() as other:
        await other.execute("SELECT FROM jobmesh.queue_slots FOR UPDATE")
        reporting = asyncio.create_task(hand_over(db, [d.succeeded(lease)], seat))
        await d.blocked(db)
        await other.execute("SELECT FROM jobmesh.jobs_live FOR UPDATE NOWAIT")
    assert (await reporting).settled == {lease.key}


async def test_a_report_that_is_repeated_hands_nothing_over(db: Database) -> None:
    seat = await d.attach(db)
    lease, _ = await crowd(db, seat)
    assert (await hand_over(db, [d.succeeded(lease)], seat)).handed.rows
    again = await hand_over(db, [d.succeeded(lease)], seat)
    assert again.settled == {lease.key}
    assert not again.handed.rows
    assert await running(db) == 1


async def test_a_limit_is_never_passed_while_slots_are_handed_over(db: Database) -> None:
    """Reports of several runners at once, and claims beside them, until all have ended."""
    limit, number = 3, 60
    chance = random.Random(number)
    await db.fetch("UPDATE jobmesh.queues SET max_running = $1", limit)
    jobs = [await d.store_one(db, queue=FEW, priority=chance.randrange(10)) for _ in range(number)]
    seats = [await d.attach(db, free=number) for _ in range(4)]

    async def work(seat: Seat, mine: Sequence[UUID]) -> None:
        left = d.leases(await d.claim_all(db, mine, seat, queue=FEW))
        while await unended():
            if not left:
                left = d.leases(await d.claim_all(db, list(await d.awake(db)), seat, queue=FEW))
            ended = [chance.choice([d.succeeded, d.interrupted])(lease) for lease in left]
            recorded = await hand_over(db, ended, seat)
            assert await running(db) <= limit
            left = d.leases(recorded.handed)

    async def unended() -> int:
        (row,) = await db.fetch("SELECT count(*) FROM jobmesh.jobs_live")
        return int(row["count"])

    async with asyncio.timeout(60):
        await asyncio.gather(*(work(seat, jobs[n::4]) for n, seat in enumerate(seats)))
    assert [(await d.job(db, j))["state"] for j in jobs] == ["SUCCEEDED"] * number
    assert await running(db) == 0


async def attached(db: Database, one: Dispatcher, slots: int) -> Attachment:
    runner = Attachment(hello(slots=slots))
    await d.reattach(db, runner.seat())
    one.roster.add(runner)
    return runner


async def ends(one: Dispatcher, runner: Attachment, lease: Lease) -> None:
    """As the stream does it: its room is free before it is recorded."""
    runner.leases.pop(lease.job_id, None)
    assert await one.reports.outcomes([d.succeeded(lease)]) == [True]


async def test_a_runner_with_idle_slots_is_sent_the_next_job(db: Database, one: Dispatcher) -> None:
    runner = await attached(db, one, slots=2)
    lease, (following, *_) = await crowd(db, runner.seat())
    await ends(one, runner, lease)
    assert runner.leases.keys() == {following}
    (sent,) = (await anext(runner.outbound())).assignments.jobs
    assert sent.job_id == str(following)
    assert runner.reserved == 0


async def test_a_runner_that_has_no_more_room_leaves_it_to_whoever_waits(
    db: Database, one: Dispatcher
) -> None:
    runner = await attached(db, one, slots=1)
    lease, (following, *_) = await crowd(db, runner.seat())
    await ends(one, runner, lease)
    assert not runner.leases
    assert await d.awake(db) == {following}


async def test_now_and_then_a_slot_goes_to_the_runners_of_all_dispatchers(
    db: Database, one: Dispatcher
) -> None:
    runner = await attached(db, one, slots=2)
    lease, waiting = await crowd(db, runner.seat(), number=SHARED)
    for following in waiting[: SHARED - 1]:
        await ends(one, runner, lease)
        lease = runner.leases[following]
    await ends(one, runner, lease)
    assert not runner.leases
    assert await d.awake(db) == {waiting[-1]}


async def test_room_that_a_claim_is_about_to_take_is_not_handed_over(
    db: Database, one: Dispatcher
) -> None:
    runner = await attached(db, one, slots=3)
    lease, (following, *_) = await crowd(db, runner.seat())
    job_id = await d.store_one(db, queue=FEW)
    claims = Claims(db, one.roster, one.after_commit)
    async with db.transaction() as other:
        await other.execute("SELECT FROM jobmesh.jobs_live WHERE job_id = $1 FOR UPDATE", job_id)
        claiming = asyncio.create_task(claims.named([job_id], [queue_token(d.NAMESPACE, FEW)]))
        await d.blocked(db)
        assert runner.room == 0, "an idle one is kept as a whole"
        assert claims.under_way == 1
    await claiming
    assert (runner.reserved, claims.under_way) == (0, 0)
    await ends(one, runner, lease)
    assert runner.leases.keys() == {following}


async def test_a_runner_of_other_jobs_takes_no_part(db: Database, one: Dispatcher) -> None:
    other = await attached(db, one, slots=9)
    other.types = frozenset({"other"})
    runner = await attached(db, one, slots=2)
    lease, (following, *_) = await crowd(db, runner.seat())
    await ends(one, runner, lease)
    assert runner.leases.keys() == {following}


async def test_a_transaction_that_takes_long_hands_nothing_over(
    db: Database, one: Dispatcher, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("jobmesh_dispatcher.reports.may_begin_since", lambda _: False)
    runner = await attached(db, one, slots=2)
    lease, (following, *_) = await crowd(db, runner.seat())
    await ends(one, runner, lease)
    assert not runner.leases
    assert await d.awake(db) == {following}


async def test_a_job_that_is_handed_over_too_late_is_not_sent(
    db: Database, one: Dispatcher, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("jobmesh_dispatcher.claims.CLAIM_SECONDS", -CLAIM_SECONDS)
    monkeypatch.setattr("jobmesh_dispatcher.reports.may_begin_since", lambda _: True)
    runner = await attached(db, one, slots=2)
    lease, (following, *_) = await crowd(db, runner.seat())
    await ends(one, runner, lease)
    assert not runner.leases
    assert (await d.job(db, following))["session_id"] == runner.session_id, "which takes it back"


async def test_a_job_that_fails_to_take_over_keeps_none_from_ending(
    db: Database, one: Dispatcher
) -> None:
    runner = await attached(db, one, slots=2)
    lease, (following, *_) = await crowd(db, runner.seat())
    await db.fetch("UPDATE jobmesh.jobs_live SET type = 'bad' WHERE job_id = $1", following)
    await db.fetch(
        """ALTER TABLE jobmesh.jobs_live ADD CONSTRAINT unforeseen
           CHECK (type <> 'bad' OR state <> 'RUNNING')"""
    )
    runner.types = frozenset({"t", "bad"})
    await ends(one, runner, lease)
    assert (await d.job(db, lease.job_id))["state"] == "SUCCEEDED"
    assert await d.awake(db) == {following}
