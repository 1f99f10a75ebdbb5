"""Firings that waited for the jobs of earlier ones, once these have ended."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING
from uuid import UUID

from jobmesh.ids import new_id
from jobmesh_dispatcher import failpoints
from jobmesh_dispatcher.firing_orders import Order, Template
from jobmesh_dispatcher.sql import load
from jobmesh_dispatcher.store.fire import Fired, Prepared, store

if TYPE_CHECKING:
    from asyncpg import Record

    from jobmesh_dispatcher.database import Connection


async def release(
    connection: Connection,
    waiting: Sequence[Record],
    prepare: Callable[[Order, Template], Prepared],
) -> Fired:
    """Submit those of `waiting`, rows of `releasable_firings.sql`, that still may be.

    Belongs into a transaction that holds the epoch. One whose queue takes no jobs waits on.
    """
    fired = Fired()
    templates = await _idle(connection, [row["schedule_uid"] for row in waiting])
    ready = [
        one
        for row in waiting
        if (template := templates.get(row["schedule_uid"])) is not None
        and (one := prepare(_order_of(row), template)).refusal is None
    ]
    if ready:
        await _submit(connection, ready, fired)
    return fired


async def refuse(connection: Connection, waiting: Record, detail: str) -> None:
    """Record that one is not fired, and why; it keeps those behind it waiting no more."""
    await connection.execute(
        load("refuse_buffered"), waiting["schedule_uid"], waiting["fire_time"], detail
    )


async def _idle(connection: Connection, uids: Sequence[UUID]) -> dict[UUID, Template]:
    """What the schedules submit, of those that may fire now.

    They are locked first and looked at again later: somebody may just be firing one.
    """
    ordered = sorted(uids)
    locked = {row["uid"]: row for row in await connection.fetch(load("lock_schedules"), ordered)}
    idle = [
        row["uid"]
        for row in await connection.fetch(load("count_unended"), ordered)
        if not row["active"] and row["uid"] in locked and not locked[row["uid"]]["paused"]
    ]
    rows = await connection.fetch(load("schedules_to_fire"), sorted(idle))
    return {row["uid"]: Template.from_row(row) for row in rows}


async def _submit(connection: Connection, ready: Sequence[Prepared], fired: Fired) -> None:
    rows = await connection.fetch(
        load("submit_buffered"),
        [one.order.uid for one in ready],
        [one.order.fire_time for one in ready],
        [one.order.job_id for one in ready],
    )
    made = {row["job_id"] for row in rows}
    submissions = [one.submission for one in ready if one.order.job_id in made]
    await failpoints.reach("fire.recorded")
    fired.messages += await store(connection, submissions)
    fired.submitted = len(submissions)
    await failpoints.reach("fire.stored")


def _order_of(row: Record) -> Order:
    return Order(row["schedule_uid"], 0, row["fire_time"], row["kind"], None, UUID(new_id()))
