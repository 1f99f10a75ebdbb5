"""Schedules stored and fired by the parts of services, without the services."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

from jobmesh.schedules.overlap import Overlap
from jobmesh.v1.schedule_pb2 import Schedule
from jobmesh_dispatcher.database import Database
from jobmesh_dispatcher.firing_orders import Order, Template
from jobmesh_dispatcher.sql import load
from jobmesh_dispatcher.store.fire import Fired, Prepared, fire
from jobmesh_dispatcher.store.fire_buffered import release
from jobmesh_scheduler.database import Database as SchedulerDatabase
from jobmesh_scheduler.schedule_store import ScheduleStore
from tests.support import decisions as d

START = datetime(2026, 6, 1, tzinfo=UTC)


def schedule(schedule_id: str = "s", cron: str = "* * * * *", **fields: Any) -> Schedule:
    """A schedule of jobs of type `t`, which may overlap by default."""
    made = Schedule(schedule_id=schedule_id, **({"overlap_policy": 1} | fields))
    made.include.add(cron=cron)
    made.job.type = "t"
    made.job.queue = d.QUEUE
    made.job.priority = 4
    return made


@asynccontextmanager
async def opened(dsn: str) -> AsyncIterator[ScheduleStore]:
    """The store as a scheduler has it."""
    database = SchedulerDatabase(dsn, timeout=10.0, size=4)
    await database.start()
    try:
        yield ScheduleStore(database)
    finally:
        await database.stop()


async def stored(store: ScheduleStore, *schedules: Schedule) -> list[UUID]:
    """Store schedules; their uids."""
    for one in schedules:
        await store.create(d.NAMESPACE, one)
    return [(await store.read(d.NAMESPACE, one.schedule_id)).uid for one in schedules]


def order(
    uid: UUID, minute: int = 0, *, kind: str = "DUE", overlap: Overlap | None = None, **more: Any
) -> Order:
    """An order for a minute after START."""
    time = START + timedelta(minutes=minute)
    return Order(uid, more.pop("revision", 0), time, kind, overlap, d.uid(), **more)


def prepare(one: Order, template: Template) -> Prepared:
    """The order with its job, of a queue that takes any."""
    return Prepared(one, template, template.submission(one.job_id, one.fire_time), None)


async def fired(database: Database, *orders: Order) -> Fired:
    """Carry orders out in one transaction."""
    rows = await database.fetch(load("schedules_to_fire"), [one.uid for one in orders])
    templates = {row["uid"]: Template.from_row(row) for row in rows}
    prepared = [prepare(one, templates[one.uid]) for one in orders if one.uid in templates]
    return await database.run(lambda c: fire(c, prepared))


async def released(database: Database) -> Fired:
    """Submit what waits and may."""
    waiting = await database.fetch(load("releasable_firings"), UUID(int=0), 100)
    return await database.run(lambda c: release(c, waiting, prepare))


async def firings(database: Database, uid: UUID) -> list[tuple[int, str]]:
    """(minute after START, outcome) of each record."""
    rows = await database.fetch(
        "SELECT fire_time, outcome FROM jobmesh.firings WHERE schedule_uid = $1 ORDER BY 1", uid
    )
    return [(int((row["fire_time"] - START).total_seconds() // 60), row["outcome"]) for row in rows]


async def jobs_of(database: Database, schedule_id: str = "s") -> list[tuple[UUID, str]]:
    """(id, state) of each of its jobs, live or ended."""
    rows = await database.fetch(
        "SELECT job_id, state FROM jobmesh.jobs WHERE schedule_id = $1 ORDER BY create_time",
        schedule_id,
    )
    return [(row["job_id"], row["state"]) for row in rows]


async def unmatched(database: Database) -> Sequence[object]:
    """Records without their job, and jobs without their record: there never is one."""
    return await database.fetch(
        """SELECT f.job_id FROM jobmesh.firings f LEFT JOIN jobmesh.jobs j USING (job_id)
           WHERE f.outcome = 'SUBMITTED' AND j.job_id IS NULL
           UNION ALL
           SELECT j.job_id FROM jobmesh.jobs j LEFT JOIN jobmesh.firings f USING (job_id)
           WHERE j.schedule_id <> '' AND f.job_id IS NULL"""
    )
