"""Firings: each time once, its record with its job, and what overlaps as declared."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from datetime import timedelta

import pytest

from jobmesh.errors import BackendUnavailable, LeadershipLost
from jobmesh.schedules.overlap import Overlap
from jobmesh.v1.schedule_pb2 import FiringOutcome
from jobmesh_dispatcher import failpoints
from jobmesh_dispatcher.database import Database
from jobmesh_dispatcher.store.leadership import hold_epoch
from jobmesh_scheduler.schedule_store import ScheduleStore
from tests.support import decisions as d
from tests.support import schedules as s

ALLOW, SKIP, ONE, ALL, CANCEL, TERMINATE = range(1, 7)


@pytest.fixture
async def db(database: str) -> AsyncIterator[Database]:
    async with d.opened(database) as opened:
        await d.make_queue(opened)
        yield opened


@pytest.fixture
async def store(database: str) -> AsyncIterator[ScheduleStore]:
    async with s.opened(database) as opened:
        yield opened


async def test_a_firing_makes_one_job_that_knows_its_schedule_and_time(
    db: Database, store: ScheduleStore
) -> None:
    (uid,) = await s.stored(store, s.schedule())
    order = s.order(uid)
    fired = await s.fired(db, order)
    (firing,) = fired.answers
    assert firing is not None
    assert firing.outcome == FiringOutcome.FIRING_OUTCOME_SUBMITTED
    assert firing.job_id == str(order.job_id)
    assert await s.jobs_of(db) == [(order.job_id, "QUEUED")]
    assert await d.awake(db) == {order.job_id}
    (row,) = await db.fetch("SELECT labels FROM jobmesh.jobs_live")
    assert "2026-06-01T00:00:00Z" in row["labels"]


async def test_the_same_time_asked_for_again_is_answered_with_the_same_job(
    db: Database, store: ScheduleStore
) -> None:
    (uid,) = await s.stored(store, s.schedule())
    many = await asyncio.gather(*(s.fired(db, s.order(uid)) for _ in range(10)))
    ids = {answer.job_id for fired in many for answer in fired.answers if answer}
    assert len(ids) == 1
    assert sum(fired.submitted for fired in many) == 1
    assert len(await s.jobs_of(db)) == 1


async def test_an_order_of_another_revision_or_of_a_paused_schedule_is_refused(
    db: Database, store: ScheduleStore
) -> None:
    (uid,) = await s.stored(store, s.schedule())
    assert (await s.fired(db, s.order(uid, revision=9))).answers == [None]
    await store.set_paused(d.NAMESPACE, "s", True, "a note")
    assert (await s.fired(db, s.order(uid))).answers == [None]
    assert await s.firings(db, uid) == []
    (asked,) = (await s.fired(db, s.order(uid, kind="TRIGGERED"))).answers
    assert asked is not None
    await store.drop(d.NAMESPACE, "s", "")
    assert (await s.fired(db, s.order(uid, 1))).answers == []


@pytest.mark.parametrize(
    ("policy", "outcomes"),
    [
        (ALLOW, ["SUBMITTED", "SUBMITTED", "SUBMITTED"]),
        (SKIP, ["SUBMITTED", "SKIPPED", "SKIPPED"]),
        (ONE, ["SUBMITTED", "BUFFERED", "SKIPPED"]),
        (ALL, ["SUBMITTED", "BUFFERED", "BUFFERED"]),
        (CANCEL, ["SUBMITTED", "REPLACED", "BUFFERED"]),
        (TERMINATE, ["SUBMITTED", "SUBMITTED", "SUBMITTED"]),
    ],
)
@pytest.mark.parametrize("together", [True, False])
async def test_overlap_is_as_declared(
    db: Database, store: ScheduleStore, policy: int, outcomes: list[str], together: bool
) -> None:
    (uid,) = await s.stored(store, s.schedule(overlap_policy=policy))
    await s.fired(db, s.order(uid))
    rest = [s.order(uid, minute) for minute in (1, 2)]
    for group in [rest] if together else [[one] for one in rest]:
        await s.fired(db, *group)
    assert [outcome for _, outcome in await s.firings(db, uid)] == outcomes
    assert await s.unmatched(db) == []
    states = [state for _, state in await s.jobs_of(db)]
    expected = {
        ALLOW: ["QUEUED"] * 3,
        CANCEL: ["CANCELLED"],
        TERMINATE: ["CANCELLED", "CANCELLED", "QUEUED"],
    }
    if not (policy == TERMINATE and together):
        assert states == expected.get(policy, ["QUEUED"])
    else:
        assert sorted(states) in (["CANCELLED", "QUEUED", "QUEUED"], sorted(expected[TERMINATE]))


async def test_what_waits_is_submitted_in_its_order_once_the_others_have_ended(
    db: Database, store: ScheduleStore
) -> None:
    (uid,) = await s.stored(store, s.schedule(overlap_policy=ALL))
    for minute in range(3):
        await s.fired(db, s.order(uid, minute))
    seat = await d.attach(db)
    for minute in range(1, 3):
        assert (await s.released(db)).submitted == 0
        (live,) = [job for job, state in await s.jobs_of(db) if state == "QUEUED"]
        (lease,) = d.leases(await d.claim_all(db, [live], seat))
        assert (await s.released(db)).submitted == 0
        await d.report(db, d.succeeded(lease))
        assert (await s.released(db)).submitted == 1
        assert (await s.firings(db, uid))[minute] == (minute, "SUBMITTED")
    assert await s.unmatched(db) == []
    assert len(await s.jobs_of(db)) == 3


async def test_running_jobs_are_asked_to_stop_or_ended_and_give_back_their_slots(
    db: Database, store: ScheduleStore
) -> None:
    await d.make_queue(db, "limited", max_running=5)
    schedule = s.schedule(overlap_policy=CANCEL)
    schedule.job.queue = "limited"
    (uid,) = await s.stored(store, schedule)
    first = s.order(uid)
    await s.fired(db, first)
    seat = await d.attach(db)
    (lease,) = d.leases(await d.claim_all(db, [first.job_id], seat, queue="limited"))
    fired = await s.fired(db, s.order(uid, 1))
    assert fired.ended.stops == [(first.job_id, seat.session_id)]
    assert await s.jobs_of(db) == [(first.job_id, "CANCELLING")]
    await s.fired(db, s.order(uid, 2, overlap=Overlap.TERMINATE_RUNNING))
    assert [state for _, state in await s.jobs_of(db)] == ["CANCELLED", "QUEUED"]
    assert [o for _, o in await s.firings(db, uid)] == ["SUBMITTED", "REPLACED", "SUBMITTED"]
    (slots,) = await db.fetch("SELECT running FROM jobmesh.queue_slots")
    assert slots["running"] == 0
    late = await d.report(db, d.succeeded(lease))
    assert [state for _, state in await s.jobs_of(db)] == ["CANCELLED", "QUEUED"], late


async def test_what_was_missed_is_one_record_and_a_backfill_may_fill_it(
    db: Database, store: ScheduleStore
) -> None:
    (uid,) = await s.stored(store, s.schedule())
    last = s.START + timedelta(minutes=9)
    await s.fired(db, s.order(uid, kind="CATCHUP", missed=10, last_missed=last))
    (row,) = await db.fetch("SELECT * FROM jobmesh.firings")
    assert (row["outcome"], row["count"], row["last_fire_time"]) == ("MISSED", 10, last)
    await s.fired(db, *(s.order(uid, minute, kind="BACKFILLED") for minute in range(10)))
    assert [outcome for _, outcome in await s.firings(db, uid)] == ["SUBMITTED"] * 10
    await s.fired(db, *(s.order(uid, minute, kind="BACKFILLED") for minute in range(10)))
    assert len(await s.jobs_of(db)) == 10


async def test_it_pauses_itself_after_so_many_failures_in_a_row(
    db: Database, store: ScheduleStore
) -> None:
    schedule = s.schedule(pause_after_failures=2)
    schedule.job.retry_policy.max_attempts = 1
    (uid,) = await s.stored(store, schedule)
    seat = await d.attach(db)
    for minute, good in enumerate([False, True, False, False]):
        order = s.order(uid, minute)
        assert (await s.fired(db, order)).paused == []
        (lease,) = d.leases(await d.claim_all(db, [order.job_id], seat))
        await d.report(db, d.succeeded(lease) if good else d.failed(lease))
    fired = await s.fired(db, s.order(uid, 4))
    assert (fired.paused, fired.answers) == (["s"], [None])
    paused = (await store.read(d.NAMESPACE, "s")).schedule
    assert paused.paused
    assert "2 firing(s) in a row" in paused.pause_note
    assert not paused.HasField("next_fire_time")
    resumed = await store.set_paused(d.NAMESPACE, "s", False, "")
    assert resumed.HasField("next_fire_time")
    assert (await s.fired(db, s.order(uid, 5))).paused == []


@pytest.mark.parametrize("point", ["fire.locked", "fire.recorded", "fire.stored"])
@pytest.mark.parametrize("policy", [ALLOW, CANCEL, TERMINATE])
async def test_a_fault_at_any_step_leaves_all_as_it_was(
    db: Database, store: ScheduleStore, point: str, policy: int
) -> None:
    (uid,) = await s.stored(store, s.schedule(overlap_policy=policy))
    await s.fired(db, s.order(uid))
    before = await s.firings(db, uid), await s.jobs_of(db), await d.awake(db)
    failpoints.arm(f"{point}=error*1")
    try:
        with pytest.raises(BackendUnavailable):
            await s.fired(db, s.order(uid, 1))
    finally:
        failpoints.arm("")
    assert (await s.firings(db, uid), await s.jobs_of(db), await d.awake(db)) == before
    await s.fired(db, s.order(uid, 1))
    assert len(await s.firings(db, uid)) == 2
    assert await s.unmatched(db) == []


async def test_a_former_leader_fires_nothing(db: Database, store: ScheduleStore) -> None:
    (uid,) = await s.stored(store, s.schedule())
    await db.fetch("UPDATE jobmesh.leadership SET epoch = 7")

    async def act(connection: object) -> None:
        await hold_epoch(connection, 6)  # type: ignore[arg-type]

    with pytest.raises(LeadershipLost):
        await db.run(act)
    assert await s.firings(db, uid) == []


async def test_what_is_due_is_found_by_an_index(db: Database, store: ScheduleStore) -> None:
    await s.stored(store, *(s.schedule(f"s{n}") for n in range(300)))
    await db.fetch("ANALYZE jobmesh.schedules")
    due = (
        "EXPLAIN SELECT uid FROM jobmesh.schedules "
        "WHERE wake_time <= clock_timestamp() ORDER BY wake_time LIMIT 10"
    )
    plan = "\n".join(row[0] for row in await db.fetch(due))
    assert "schedules_due" in plan
