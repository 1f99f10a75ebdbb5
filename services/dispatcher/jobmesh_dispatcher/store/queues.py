"""Queues: what they hold, and their settings, which change between claims and never during one.

A claim holds its queue's row FOR KEY SHARE until it commits. A change takes the row FOR UPDATE, in
a statement of its own: it waits for the claims that go by the old settings, and every later claim
reads the new ones. So nothing starts in a queue once pausing it was answered, and a limit that is
set counts every job that runs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from jobmesh import page_token
from jobmesh.errors import EtagMismatch, NotFound
from jobmesh.v1.queue_pb2 import Queue
from jobmesh_dispatcher.queue_settings import (
    QueueSettings,
    etag,
    queue_from_row,
    update_paths,
)
from jobmesh_dispatcher.queue_token import queue_token
from jobmesh_dispatcher.rows import timestamp
from jobmesh_dispatcher.sql import load
from jobmesh_dispatcher.store.slots import count_running

if TYPE_CHECKING:
    from asyncpg import Record
    from google.protobuf.timestamp_pb2 import Timestamp

    from jobmesh.v1.queue_service_pb2 import ListQueuesRequest, UpdateQueueRequest
    from jobmesh_dispatcher.database import Connection

DEFAULT_PAGE_SIZE = 50
COUNTED_BY_INDEX = 3  # queues


class QueuePage(NamedTuple):
    """Queues by name; the token is empty at the end."""

    queues: list[Queue]
    next_page_token: str


class QueueChange(NamedTuple):
    """A queue after a change, and the hold reasons whose jobs may be released because of it."""

    queue: Queue
    ended_holds: list[str]


async def read_queues(
    connection: Connection, namespace: str, names: Sequence[str], page: ListQueuesRequest
) -> QueuePage:
    """The queues of these names that exist, or a page of all, with what they hold.

    :raises InvalidField: the page token is not of this list.
    """
    if names:
        rows = await connection.fetch(load("read_queues"), namespace, list(names), "", len(names))
        return QueuePage(await _with_depth(connection, namespace, rows), "")
    size = page.page_size or DEFAULT_PAGE_SIZE
    after = page_token.parse_queue_token(namespace, page.page_token)
    rows = await connection.fetch(load("read_queues"), namespace, None, after, size + 1)
    more = len(rows) > size
    queues = await _with_depth(connection, namespace, rows[:size])
    return QueuePage(queues, page_token.queue_token(namespace, queues[-1].name) if more else "")


async def change_queue(
    connection: Connection, namespace: str, request: UpdateQueueRequest
) -> QueueChange:
    """Change settings, and make the queue if it is new. Belongs into a transaction.

    :raises EtagMismatch: the settings have changed since they were read.
    :raises InvalidField: the mask names something else than a setting.
    """
    wanted = request.queue
    row = await _lock_or_make(connection, namespace, wanted)
    before = QueueSettings.from_row(row)
    paths = update_paths(wanted, request.update_mask.paths)
    after = before.changed(wanted, paths)
    return await _carry_out(connection, row, before, after)


async def set_paused(
    connection: Connection, namespace: str, name: str, paused: bool, note: str
) -> QueueChange:
    """Stop or resume starting jobs. Belongs into a transaction.

    :raises NotFound:
    """
    row = await connection.fetchrow(load("lock_queue"), namespace, name)
    if row is None:
        raise NotFound.queue(name)
    before = QueueSettings.from_row(row)
    after = replace(before, dispatch_paused=paused, pause_note=note if paused else "")
    return await _carry_out(connection, row, before, after)


async def _lock_or_make(connection: Connection, namespace: str, wanted: Queue) -> Record:
    row: Record | None = await connection.fetchrow(load("lock_queue"), namespace, wanted.name)
    if row is None and not wanted.etag:
        token = queue_token(namespace, wanted.name)
        await connection.execute(load("make_queue"), namespace, wanted.name, token)
        row = await connection.fetchrow(load("lock_queue"), namespace, wanted.name)
    current = etag(row) if row is not None else ""
    if row is None or wanted.etag not in ("", current):
        raise EtagMismatch(wanted.etag, current)
    return row


async def _carry_out(
    connection: Connection, row: Record, before: QueueSettings, after: QueueSettings
) -> QueueChange:
    namespace, name = row["namespace"], row["name"]
    if after.max_running is not None and after.max_running != before.max_running:
        await count_running(connection, namespace, name)
    if after != before:
        row = await _write(connection, namespace, name, after)
    (queue,) = await _with_depth(connection, namespace, [row])
    return QueueChange(queue, before.holds_ended_by(after))


async def _write(
    connection: Connection, namespace: str, name: str, settings: QueueSettings
) -> Record:
    row: Record | None = await connection.fetchrow(
        load("change_queue"),
        namespace,
        name,
        settings.max_running,
        settings.max_depth,
        settings.default_retry_policy,
        settings.default_timeout,
        settings.dispatch_paused,
        settings.intake_paused,
        settings.pause_note,
    )
    assert row is not None  # it is locked
    return row


async def _with_depth(
    connection: Connection, namespace: str, rows: Sequence[Record]
) -> list[Queue]:
    """The queues of these rows, with what they hold."""
    queues = {row["name"]: queue_from_row(row) for row in rows}
    for row in await _count(connection, namespace, list(queues)):
        if (queue := queues.get(row["queue"])) is not None:
            add_depth(queue, row)
    return list(queues.values())


async def _count(connection: Connection, namespace: str, names: list[str]) -> list[Record]:
    """Rows of the depth of at least these queues."""
    if not names:
        return []
    # Several large queues are read faster in one pass over all than each through its index.
    statement, which = (
        ("count_queue_jobs", (namespace, names))
        if len(names) <= COUNTED_BY_INDEX
        else ("count_jobs", (namespace,))
    )
    rows: list[Record] = await connection.fetch(load(statement), *which)
    return rows


def add_depth(queue: Queue, row: Record) -> None:
    """Add a row of `count_queue_jobs.sql` to what the queue holds."""
    state = row["state"].lower()
    depth = queue.depth
    setattr(depth, state, getattr(depth, state) + row["jobs"])
    # Jobs of a paused queue are not marked one by one.
    if row["hold_reason"] is not None or (queue.dispatch_paused and row["state"] == "QUEUED"):
        depth.held += row["jobs"]
    oldest = timestamp(row["oldest"])
    if oldest is not None and not _knows_older(queue, oldest):
        queue.oldest_queued_time.CopyFrom(oldest)


def _knows_older(queue: Queue, time: Timestamp) -> bool:
    known = queue.oldest_queued_time
    return queue.HasField("oldest_queued_time") and known.ToMicroseconds() <= time.ToMicroseconds()
