"""Firings that wait, as the leader asks for them: none keeps another from its turn."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from uuid import UUID

import pytest

from jobmesh.errors import LeadershipLost
from jobmesh.v1.job_pb2 import JobSpec
from jobmesh_dispatcher.broker import Broker
from jobmesh_dispatcher.database import Database
from jobmesh_dispatcher.firings import Firings
from jobmesh_dispatcher.nudges import Nudges
from jobmesh_dispatcher.queue_cache import QueueCache
from jobmesh_scheduler.schedule_store import ScheduleStore
from tests.support import decisions as d
from tests.support import schedules as s
from tests.support.dispatchers import dispatcher

EPOCH = 1
BUFFER_ALL = 4
CLOSED = "closed"


@pytest.fixture
async def db(database: str) -> AsyncIterator[Database]:
    async with d.opened(database) as opened:
        await d.make_queue(opened)
        await d.make_queue(opened, CLOSED)
        await opened.fetch("UPDATE jobmesh.queues SET intake_paused = true WHERE name = $1", CLOSED)
        await opened.fetch("UPDATE jobmesh.leadership SET epoch = $1", EPOCH)
        yield opened


@pytest.fixture
async def store(database: str) -> AsyncIterator[ScheduleStore]:
    async with s.opened(database) as opened:
        yield opened


@pytest.fixture
async def firings(db: Database) -> AsyncIterator[Firings]:
    queues = QueueCache(db, Nudges(Broker("nats://127.0.0.1:1")))
    async with dispatcher(db) as its:
        await queues.start()
        try:
            yield Firings(db, queues, its.after_commit, lambda job, session: None)
        finally:
            await queues.stop()


async def waiting(db: Database, store: ScheduleStore, count: int) -> list[UUID]:
    """So many schedules with one firing each that may be made now, in the order of their uids."""
    named = [s.schedule(f"s{n}", overlap_policy=BUFFER_ALL) for n in range(count)]
    uids = await s.stored(store, *named)
    for uid in uids:
        await s.fired(db, s.order(uid), s.order(uid, 1))
    seat = await d.attach(db)
    live = [job for one in named for job, _ in await s.jobs_of(db, one.schedule_id)]
    for lease in d.leases(await d.claim_all(db, live, seat)):
        await d.report(db, d.succeeded(lease))
    return sorted(uids)


async def change_job(
    db: Database, uids: Sequence[UUID], queue: str = d.QUEUE, **labels: str
) -> None:
    """Give schedules other jobs than anybody checked."""
    spec = JobSpec(type="t", queue=queue, priority=4, labels=labels).SerializeToString()
    await db.fetch("UPDATE jobmesh.schedules SET job = $1 WHERE uid = ANY ($2)", spec, uids)


async def outcome(db: Database, uid: UUID) -> str:
    """Of the firing that waited."""
    return (await s.firings(db, uid))[1][1]


async def test_those_whose_queue_takes_no_jobs_keep_no_others_waiting(
    db: Database, store: ScheduleStore, firings: Firings
) -> None:
    *stuck, free = await waiting(db, store, 4)
    await change_job(db, stuck, queue=CLOSED)
    assert [await firings.release(EPOCH, limit=2) for _ in range(2)] == [0, 1]
    assert await outcome(db, free) == "SUBMITTED"
    assert {await outcome(db, uid) for uid in stuck} == {"BUFFERED"}
    await change_job(db, stuck)
    assert sum([await firings.release(EPOCH, limit=2) for _ in range(3)]) == 3
    assert await s.unmatched(db) == []


async def test_one_that_the_database_refuses_is_recorded_so_and_stops_no_others(
    db: Database, store: ScheduleStore, firings: Firings
) -> None:
    uids = await waiting(db, store, 5)
    await change_job(db, uids[2:3], a="\0")
    assert await firings.release(EPOCH, limit=10) == 4
    assert [await outcome(db, uid) for uid in uids] == [
        *["SUBMITTED"] * 2,
        "REFUSED",
        *["SUBMITTED"] * 2,
    ]
    assert await firings.release(EPOCH, limit=10) == 0
    assert await s.unmatched(db) == []


async def test_a_former_leader_releases_nothing(
    db: Database, store: ScheduleStore, firings: Firings
) -> None:
    (uid,) = await waiting(db, store, 1)
    with pytest.raises(LeadershipLost):
        await firings.release(EPOCH - 1, limit=10)
    assert await outcome(db, uid) == "BUFFERED"
