"""Duty: fire schedules when their time has come.

What is due is read by the database's clock, and the time until the next one with it, so that the
leader's own clock does not matter. An order is given first, and the cursor moved afterwards:
whoever leads next gives the same order again, and is answered with what is recorded.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING
from uuid import UUID

from jobmesh.ids import new_id
from jobmesh.schedules.catchup import Plan, plan
from jobmesh.schedules.definition import Definition
from jobmesh.v1 import dispatch_service_pb2 as pb
from jobmesh.v1.schedule_pb2 import FiringKind, FiringOutcome, Schedule
from jobmesh_scheduler import statements, telemetry
from jobmesh_scheduler.database import Database
from jobmesh_scheduler.dispatch import LeaderCalls
from jobmesh_scheduler.schedule_rows import Wake, wake

if TYPE_CHECKING:
    from asyncpg import Record

log = logging.getLogger(__name__)

SCHEDULES_A_TURN = 1000
# Few enough that the first are fired while others are still on their way.
ORDERS_A_CALL = 64
CALLS_AT_ONCE = 4
# A schedule that another scheduler has just made is not known here until we look again.
LONGEST_PAUSE = 0.25
PUT_OFF = timedelta(minutes=1)
# To make one again takes 30 µs; each holds about 10 kB.
MOST_KEPT = 2_000


@dataclass(slots=True)
class Due:
    """A schedule that is due, with what is to be done."""

    uid: UUID
    revision: int
    definition: Definition
    plan: Plan
    orders: list[pb.FiringOrder]


class Firing:
    """Reads what is due, has it fired, moves the cursors, and sleeps until the next one."""

    name = "firing"

    def __init__(self, database: Database, calls: LeaderCalls) -> None:
        self._database = database
        self._calls = calls
        self._definitions: dict[tuple[UUID, int], Definition] = {}

    async def turn(self, epoch: int) -> float:
        """Fire what is due now; seconds until there is more."""
        read = time.monotonic()
        rows = await self._database.rows(statements.DUE_SCHEDULES, SCHEDULES_A_TURN)
        if rows:
            await self._fire(epoch, rows, rows[0]["now"] - timedelta(seconds=read))
        if len(rows) == SCHEDULES_A_TURN:
            return 0.0
        return await self._pause()

    async def _pause(self) -> float:
        row = await self._database.row(statements.NEXT_WAKE)
        seconds = None if row is None else row["seconds"]
        return LONGEST_PAUSE if seconds is None else min(max(seconds, 0.0), LONGEST_PAUSE)

    async def _fire(self, epoch: int, rows: Sequence[Record], zero: datetime) -> None:
        """``zero`` is what the database's clock showed when our monotonic one was at 0."""
        due = [one for row in rows if (one := self._plan(row)) is not None]
        put_off = {row["uid"] for row in rows} - {one.uid for one in due}
        limit = asyncio.Semaphore(CALLS_AT_ONCE)

        async def call(group: list[Due]) -> None:
            async with limit:
                await self._give(epoch, group, zero)

        async with asyncio.TaskGroup() as calls:
            for group in _groups(due):
                calls.create_task(call(group))
        if put_off:
            await self._put_off([row for row in rows if row["uid"] in put_off])

    def _plan(self, row: Record) -> Due | None:
        """What is to be done for a schedule; None if it cannot be understood any more."""
        try:
            definition = self._definition(row)
            now = definition.undue(row["now"])
            made = plan(
                definition.timetable,
                row["cursor_time"],
                max(now, row["cursor_time"]),
                definition.catchup,
                definition.window,
                definition.jitter,
            )
        except Exception:
            # One that a newer version has written, or whose zone is gone, must not stop the others.
            log.exception("schedule %s is put off", row["schedule_id"])
            return None
        orders = _orders(row["uid"], row["revision"], made)
        return Due(row["uid"], row["revision"], definition, made, orders)

    def _definition(self, row: Record) -> Definition:
        key = row["uid"], row["revision"]
        found = self._definitions.get(key)
        if found is None:
            if len(self._definitions) >= MOST_KEPT:
                self._definitions.clear()
            schedule = Schedule.FromString(row["definition"])
            schedule.schedule_id = row["schedule_id"]
            found = self._definitions[key] = Definition(schedule)
        return found

    async def _give(self, epoch: int, group: Sequence[Due], zero: datetime) -> None:
        """Give the orders of a group, and move the cursors of those that were carried out."""
        orders = [order for one in group for order in one.orders]
        answers = iter(await self._calls.fire(epoch, orders) if orders else ())
        now = zero + timedelta(seconds=time.monotonic())
        done = []
        for one in group:
            own = [next(answers) for _ in one.orders]
            # A refused order: the schedule was changed, and whoever did that has set its cursor.
            if all(answer.HasField("firing") for answer in own):
                done.append(one)
            _count(one, own, now)
        moves = [(one.uid, one.revision, *_next(one, now)) for one in done]
        if moves:
            await self._database.rows(statements.MOVE_CURSORS, *map(list, zip(*moves, strict=True)))

    async def _put_off(self, rows: Sequence[Record]) -> None:
        await self._database.rows(
            statements.MOVE_CURSORS,
            [row["uid"] for row in rows],
            [row["revision"] for row in rows],
            [row["cursor_time"] for row in rows],
            [None for _ in rows],
            [row["now"] + PUT_OFF for row in rows],
        )


def _groups(due: Sequence[Due]) -> list[list[Due]]:
    """So many schedules together that a call has about as many orders as it should."""
    groups: list[list[Due]] = []
    size = ORDERS_A_CALL
    for one in due:
        if size + len(one.orders) > ORDERS_A_CALL:
            groups.append([])
            size = 0
        groups[-1].append(one)
        size += len(one.orders)
    return groups


def _orders(uid: UUID, revision: int, made: Plan) -> list[pb.FiringOrder]:
    orders = []
    if made.missed is not None:
        order = _order(uid, revision, made.missed.first, FiringKind.FIRING_KIND_CATCHUP)
        order.missed = made.missed.count
        order.last_missed_time.FromDatetime(made.missed.last)
        orders.append(order)
    for fire in made.fire:
        late = FiringKind.FIRING_KIND_CATCHUP
        kind = late if fire.late else FiringKind.FIRING_KIND_DUE
        orders.append(_order(uid, revision, fire.time, kind))
    return orders


def _order(
    uid: UUID, revision: int, fire_time: datetime, kind: FiringKind.ValueType
) -> pb.FiringOrder:
    order = pb.FiringOrder(schedule_uid=str(uid), revision=revision, kind=kind, job_id=new_id())
    order.fire_time.FromDatetime(fire_time)
    return order


def _next(one: Due, now: datetime) -> Wake:
    at = wake(one.definition, one.plan.cursor, now)
    again = one.plan.again
    if again is None or at.wake_time is None:
        return at
    return at._replace(wake_time=max(at.wake_time, again))


def _count(one: Due, answers: Sequence[pb.FiringAnswer], now: datetime) -> None:
    for answer in answers:
        outcome = "changed"
        if answer.HasField("firing"):
            outcome = FiringOutcome.Name(answer.firing.outcome).removeprefix("FIRING_OUTCOME_")
        telemetry.FIRED.labels(outcome.lower()).inc()
    for fire in one.plan.fire:
        if not fire.late:
            late = (now - one.definition.due(fire.time)).total_seconds()
            telemetry.LATENESS.observe(max(0.0, late))
