"""Promotion: jobs whose time has come become ready."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from jobmesh_dispatcher.sql import load
from jobmesh_dispatcher.store.consequences import owe_messages
from jobmesh_dispatcher.store.outbox import OutboxMessage

if TYPE_CHECKING:
    from asyncpg import Record

    from jobmesh_dispatcher.database import Connection


class Promoted(NamedTuple):
    """Jobs that became ready; `next_due_seconds` is None if nothing waits for its time."""

    rows: list[Record]
    messages: list[OutboxMessage]
    next_due_seconds: float | None


async def promote(connection: Connection, limit: int) -> Promoted:
    """Queue at most `limit` due jobs, the longest overdue first."""
    rows = await connection.fetch(load("promote_jobs"), limit)
    messages = await owe_messages(connection, rows)
    seconds: float | None = await connection.fetchval(load("next_due"))
    return Promoted(rows, messages, None if seconds is None else max(0.0, seconds))
