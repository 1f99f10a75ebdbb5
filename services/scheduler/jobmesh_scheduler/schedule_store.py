"""Reading and changing schedules. Every scheduler does, whether it leads or not.

A change locks the row, as a firing does, and moves the cursor to now by the database's clock: what
the schedule used to fire until then is past, and what it fires from now on is reckoned anew.
"""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, NamedTuple
from uuid import UUID

from jobmesh.errors import EtagMismatch, NotFound, ScheduleExists
from jobmesh.ids import new_id
from jobmesh.schedules.check import check_schedule
from jobmesh.schedules.definition import Definition
from jobmesh.v1.schedule_pb2 import Firing, Schedule
from jobmesh.validation import Violations
from jobmesh_scheduler import statements
from jobmesh_scheduler.database import Database
from jobmesh_scheduler.schedule_rows import (
    Wake,
    etag,
    firing_message,
    schedule_message,
    stored_definition,
    stored_job,
    stored_overlap,
    wake,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from asyncpg import Record

    from jobmesh_scheduler.database import Connection

# As stored. A gateway's answer is limited to 16 MiB, and larger where it turns JSON into a Value.
PAGE_BYTES = 2 << 20

Page = tuple[list[Schedule], bool]


class Known(NamedTuple):
    """A schedule with what identifies this life of it."""

    uid: UUID
    schedule: Schedule


class ScheduleStore:
    """The schedules. Methods raise `NotFound`, and one of `DATABASE_ERRORS`."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def now(self) -> datetime:
        """The database's time."""
        row = await self._database.row(statements.NOW)
        assert row is not None
        now: datetime = row["now"]
        return now

    async def create(self, namespace: str, schedule: Schedule) -> Schedule:
        """Make it, or find it made with the same content. :raises ScheduleExists:"""
        now = await self.now()
        at = _asleep(now) if schedule.paused else wake(Definition(schedule), now, now)
        row = await self._database.row(
            statements.STORE_SCHEDULE,
            UUID(new_id()),
            namespace,
            schedule.schedule_id,
            *_contents(schedule),
            schedule.paused,
            *at,
        )
        if row is None:
            row = await self._read(namespace, schedule.schedule_id)
            if not _same(row, schedule):
                raise ScheduleExists(schedule.schedule_id)
        return schedule_message(row)

    async def read(self, namespace: str, schedule_id: str) -> Known:
        """One schedule."""
        row = await self._read(namespace, schedule_id)
        return Known(row["uid"], schedule_message(row))

    async def find(self, namespace: str, after: str, owner: str, size: int) -> Page:
        """Schedules by id, and whether there are more."""
        rows = await self._database.rows(
            statements.FIND_SCHEDULES, namespace, after, owner or None, size + 1
        )
        page = _that_fits(rows[:size])
        return [schedule_message(row) for row in page], len(rows) > len(page)

    async def change(self, namespace: str, wanted: Schedule, paths: Sequence[str]) -> Schedule:
        """Change the settings of these names.

        :raises EtagMismatch: or `InvalidField` if what comes out of it makes no sense.
        """
        async with self._database.transaction() as connection:
            row = await _lock(connection, namespace, wanted.schedule_id, wanted.etag)
            changed = schedule_message(row)
            for name in paths:
                _copy(name, wanted, changed)
            _check(changed)
            if _same(row, changed):
                return schedule_message(row)
            return await _write(connection, row, changed)

    async def set_paused(
        self, namespace: str, schedule_id: str, paused: bool, note: str
    ) -> Schedule:
        """Pause or resume it. Resuming one that is not paused changes nothing."""
        async with self._database.transaction() as connection:
            row = await _lock(connection, namespace, schedule_id, "")
            changed = schedule_message(row)
            if not paused and not changed.paused:
                return changed
            changed.paused, changed.pause_note = paused, note if paused else ""
            return await _write(connection, row, changed)

    async def drop(self, namespace: str, schedule_id: str, expected: str) -> None:
        """Remove it. :raises EtagMismatch:"""
        async with self._database.transaction() as connection:
            row = await _lock(connection, namespace, schedule_id, expected)
            await connection.execute(statements.DROP_SCHEDULE, row["uid"])

    async def firings(
        self, known: Known, before: datetime | None, size: int
    ) -> tuple[list[Firing], bool]:
        """Its firings, the latest first, and whether there are more."""
        rows = await self._database.rows(statements.FIND_FIRINGS, known.uid, before, size + 1)
        found = [firing_message(row, known.schedule.schedule_id) for row in rows[:size]]
        return found, len(rows) > size

    async def _read(self, namespace: str, schedule_id: str) -> Record:
        row = await self._database.row(statements.READ_SCHEDULE, namespace, schedule_id)
        if row is None:
            raise NotFound.schedule(schedule_id)
        return row


def _that_fits(rows: Sequence[Record]) -> list[Record]:
    """The first rows, as many as one answer holds; always the first one."""
    size = 0
    page: list[Record] = []
    for row in rows:
        size += len(row["definition"]) + len(row["job"])
        if page and size > PAGE_BYTES:
            break
        page.append(row)
    return page


async def _lock(connection: Connection, namespace: str, schedule_id: str, expected: str) -> Record:
    row: Record | None = await connection.fetchrow(statements.LOCK_SCHEDULE, namespace, schedule_id)
    if row is None:
        raise NotFound.schedule(schedule_id)
    if expected not in ("", etag(row)):
        raise EtagMismatch(expected, etag(row))
    return row


async def _write(connection: Connection, row: Record, changed: Schedule) -> Schedule:
    now: datetime = row["now"]
    at = _asleep(now) if changed.paused else wake(Definition(changed), now, now)
    written = await connection.fetchrow(
        statements.CHANGE_SCHEDULE,
        row["uid"],
        *_contents(changed),
        changed.paused,
        changed.pause_note,
        *at,
    )
    assert written is not None  # it is locked
    return schedule_message(written)


def _contents(schedule: Schedule) -> tuple[object, ...]:
    return (
        stored_definition(schedule),
        stored_job(schedule),
        stored_overlap(schedule),
        schedule.pause_after_failures,
        schedule.owner,
    )


def _asleep(now: datetime) -> Wake:
    return Wake(now, None, None)


def _same(row: Record, schedule: Schedule) -> bool:
    stored = (row["definition"], row["job"], row["owner"])
    return stored == (stored_definition(schedule), stored_job(schedule), schedule.owner)


def _copy(name: str, wanted: Schedule, changed: Schedule) -> None:
    changed.ClearField(name)  # type: ignore[arg-type]
    part = Schedule()
    part.CopyFrom(wanted)
    for field, _ in wanted.ListFields():
        if field.name != name:
            part.ClearField(field.name)  # type: ignore[arg-type]
    changed.MergeFrom(part)


def _check(schedule: Schedule) -> None:
    found = Violations()
    check_schedule(schedule, "schedule", found)
    found.raise_any()
