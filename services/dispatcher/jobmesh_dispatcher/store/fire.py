"""Firing schedules: each time of a schedule once, its record and its job in one transaction.

Guarantee: a time of a schedule has one record, and one job at the most, whoever fires it however
often. In this order, in one transaction:

1. The leader's epoch is held, so that a former leader fires nothing.
2. The schedules are locked: nobody else fires, changes or removes them meanwhile. An order that was
   reckoned from another revision is refused.
3. What is recorded already stays as it is, and is the answer.
4. The overlap policy decides, from what has not ended.
5. Records, jobs and wake-ups are written.

A process that dies anywhere before the commit leaves nothing; after it, the order is given again by
whoever leads then, and finds the record.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, NamedTuple
from uuid import UUID

from jobmesh.errors import JobmeshError
from jobmesh.ids import new_id
from jobmesh.schedules.overlap import Decision, decide
from jobmesh.v1.schedule_pb2 import Firing
from jobmesh_dispatcher import failpoints
from jobmesh_dispatcher.firing_orders import (
    ON_REQUEST,
    Order,
    Template,
    firing_message,
    read_overlap,
)
from jobmesh_dispatcher.sql import load
from jobmesh_dispatcher.store.end_jobs import Ended, cancel_jobs, terminate_jobs
from jobmesh_dispatcher.store.outbox import OutboxMessage
from jobmesh_dispatcher.store.submit import Call, store_calls
from jobmesh_dispatcher.submission import Submission

if TYPE_CHECKING:
    from asyncpg import Record

    from jobmesh_dispatcher.database import Connection

Key = tuple[UUID, datetime]


class Prepared(NamedTuple):
    """An order with the job that it makes; ``refusal`` is why its queue takes none."""

    order: Order
    template: Template
    submission: Submission
    refusal: JobmeshError | None


@dataclass(slots=True)
class Fired:
    """Answers in the order of the orders, None where one was refused; and what is to be told."""

    answers: list[Firing | None] = field(default_factory=list)
    ended: Ended = field(default_factory=Ended)
    messages: list[OutboxMessage] = field(default_factory=list)
    submitted: int = 0
    paused: list[str] = field(default_factory=list)


class _Entry(NamedTuple):
    """A firing to record."""

    order: Order
    outcome: str
    detail: str = ""


class _Standing:
    """How many jobs of a schedule have not ended, and how many firings wait, as orders go by."""

    def __init__(self, row: Record) -> None:
        self.active: int = row["active"]
        self.buffered: int = row["buffered"]


async def fire(connection: Connection, prepared: Sequence[Prepared]) -> Fired:
    """Carry out the orders. Belongs into a transaction that holds the epoch."""
    fired = Fired()
    schedules = await _lock(connection, prepared, fired)
    await failpoints.reach("fire.locked")
    valid = [p for p in prepared if _is_valid(p, schedules.get(p.order.uid))]
    known = await _recorded(connection, [p.order for p in valid])
    fresh = [p for p in valid if _is_fresh(p.order, known)]
    entries, submissions = await _decide(connection, fresh, schedules, fired)
    known.update(await _record(connection, entries))
    await failpoints.reach("fire.recorded")
    fired.messages += await store(connection, submissions)
    fired.submitted = len(submissions)
    await failpoints.reach("fire.stored")
    accepted = {id(p) for p in valid}
    fired.answers = [_answer(p, known) if id(p) in accepted else None for p in prepared]
    return fired


async def _lock(
    connection: Connection, prepared: Iterable[Prepared], fired: Fired
) -> dict[UUID, Record]:
    """The schedules by uid, without those that pause themselves now."""
    uids = sorted({p.order.uid for p in prepared})
    rows = {row["uid"]: row for row in await connection.fetch(load("lock_schedules"), uids)}
    due = {p.order.uid for p in prepared if p.order.kind not in ON_REQUEST}
    watched = [uid for uid in due & rows.keys() if rows[uid]["pause_after_failures"]]
    failing = [
        row["uid"]
        for row in (await connection.fetch(load("only_failures"), watched) if watched else ())
        if not rows[row["uid"]]["paused"]
    ]
    for uid in failing:
        row = rows.pop(uid)
        note = f"paused itself: {row['pause_after_failures']} firing(s) in a row have failed"
        await connection.execute(load("pause_schedules"), [uid], note)
        fired.paused.append(row["schedule_id"])
    return rows


def _is_valid(prepared: Prepared, schedule: Record | None) -> bool:
    """Whether the schedule is there, as it was when the order was given and its job read."""
    if schedule is None or schedule["revision"] != prepared.template.revision:
        return False
    order = prepared.order
    if order.revision not in (0, schedule["revision"]):
        return False
    return order.kind in ON_REQUEST or not schedule["paused"]


def _is_fresh(order: Order, known: dict[Key, Record]) -> bool:
    row = known.get(order.key)
    if row is None:
        return True
    return order.kind in ON_REQUEST and row["outcome"] not in ("SUBMITTED", "BUFFERED")


async def _recorded(connection: Connection, orders: Sequence[Order]) -> dict[Key, Record]:
    if not orders:
        return {}
    rows = await connection.fetch(
        load("read_firings"), [o.uid for o in orders], [o.fire_time for o in orders]
    )
    return {(row["schedule_uid"], row["fire_time"]): row for row in rows}


async def _decide(
    connection: Connection,
    fresh: Sequence[Prepared],
    schedules: dict[UUID, Record],
    fired: Fired,
) -> tuple[list[_Entry], list[Submission]]:
    """What is recorded and stored; what has to end for it is ended."""
    rows = await connection.fetch(load("count_unended"), sorted({p.order.uid for p in fresh}))
    standing = {row["uid"]: _Standing(row) for row in rows}
    entries: dict[Key, _Entry] = {}
    submissions: dict[Key, Submission] = {}
    for one in fresh:
        order, schedule = one.order, schedules[one.order.uid]
        entry = await _decide_one(connection, one, schedule, standing[order.uid], fired)
        if entry.outcome == "BUFFERED" and "in place" in entry.detail:
            _give_way(entries, order.uid)
        entries[order.key] = entry
        if entry.outcome == "SUBMITTED":
            submissions[order.key] = one.submission
    return list(entries.values()), list(submissions.values())


def _give_way(entries: dict[Key, _Entry], uid: UUID) -> None:
    """Firings of the same call that would wait give way as those do that wait already."""
    for key, entry in entries.items():
        if key[0] == uid and entry.outcome == "BUFFERED":
            entries[key] = entry._replace(
                outcome="REPLACED", detail="a later firing took its place"
            )


async def _decide_one(
    connection: Connection,
    one: Prepared,
    schedule: Record,
    standing: _Standing,
    fired: Fired,
) -> _Entry:
    order = one.order
    if order.missed:
        return _Entry(order, "MISSED", "nobody was there to fire it, and it is not made up for")
    if one.refusal is not None:
        return _Entry(order, "REFUSED", one.refusal.message)
    policy = order.overlap or read_overlap(schedule["overlap_policy"])
    assert policy is not None
    match decide(policy, standing.active, standing.buffered):
        case Decision.SKIP:
            return _Entry(order, "SKIPPED", _others(standing))
        case Decision.BUFFER:
            standing.buffered += 1
            return _Entry(order, "BUFFERED", _others(standing))
        case Decision.CANCEL:
            await connection.execute(load("replace_buffered"), order.uid)
            fired.ended += await cancel_jobs(connection, schedule, "its schedule has fired again")
            standing.buffered = 1
            return _Entry(order, "BUFFERED", "in place of the others, once they have stopped")
        case Decision.TERMINATE:
            await connection.execute(load("replace_buffered"), order.uid)
            fired.ended += await terminate_jobs(
                connection, schedule, "its schedule has fired again"
            )
            standing.active = standing.buffered = 0
    standing.active += 1
    return _Entry(order, "SUBMITTED")


def _others(standing: _Standing) -> str:
    waiting = f", {standing.buffered} firing(s) waited" if standing.buffered else ""
    return f"{standing.active} job(s) of earlier firings had not ended{waiting}"


async def _record(connection: Connection, entries: Sequence[_Entry]) -> dict[Key, Record]:
    if not entries:
        return {}
    orders = [entry.order for entry in entries]
    submitted = [entry.outcome == "SUBMITTED" for entry in entries]
    rows = await connection.fetch(
        load("record_firings"),
        [order.uid for order in orders],
        [order.fire_time for order in orders],
        [order.kind for order in orders],
        [entry.outcome for entry in entries],
        [order.job_id if made else None for order, made in zip(orders, submitted, strict=True)],
        [entry.detail for entry in entries],
        [order.missed or 1 for order in orders],
        [order.last_missed for order in orders],
    )
    return {(row["schedule_uid"], row["fire_time"]): row for row in rows}


async def store(connection: Connection, submissions: Sequence[Submission]) -> list[OutboxMessage]:
    """Store jobs of firings; the messages that they are owed."""
    if not submissions:
        return []
    call = Call(UUID(new_id()), submissions, atomic=False)
    _, messages = await store_calls(connection, [call])
    return messages


def _answer(prepared: Prepared, known: dict[Key, Record]) -> Firing:
    return firing_message(known[prepared.order.key], prepared.template.schedule_id)
