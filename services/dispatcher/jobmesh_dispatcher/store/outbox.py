"""The outbox: messages that a decision owes to the broker, written in its own transaction.

A crash between commit and publish, or a broker that is down, loses nothing: the row is there, the
leader has it published, and only an acknowledged publish deletes it. A message that is published
twice does no harm.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, NamedTuple
from uuid import UUID

from jobmesh.v1.broker_pb2 import WakeUp
from jobmesh_dispatcher.queue_token import queue_token
from jobmesh_dispatcher.sql import load

if TYPE_CHECKING:
    from jobmesh_dispatcher.database import Connection

# A message wakes up to so many jobs. More would make a small runner park what it cannot take; fewer
# cost more messages.
JOBS_A_MESSAGE = 16
WAKEUP_VERSION = 1


class Ready(NamedTuple):
    """A job that became QUEUED and is not held."""

    namespace: str
    queue: str
    priority: int
    job_id: UUID


class OutboxMessage(NamedTuple):
    """A row of the outbox."""

    id: int
    subject: str
    body: bytes


async def write_wakeups(connection: Connection, ready: Iterable[Ready]) -> list[OutboxMessage]:
    """Owe the broker wake-ups for these jobs. Every transition into QUEUED comes through here."""
    return await write_messages(connection, list(wakeup_messages(ready)))


async def write_messages(
    connection: Connection, messages: Sequence[tuple[str, bytes]]
) -> list[OutboxMessage]:
    """Owe the broker these messages (subject, body)."""
    if not messages:
        return []
    subjects = [subject for subject, _ in messages]
    bodies = [body for _, body in messages]
    rows = await connection.fetch(load("insert_outbox"), subjects, bodies)
    return [OutboxMessage(row["id"], row["subject"], row["body"]) for row in rows]


def wakeup_messages(ready: Iterable[Ready]) -> Iterable[tuple[str, bytes]]:
    """Subject and body of the fewest wake-ups that cover these jobs, in their order."""
    by_subject: dict[str, list[bytes]] = defaultdict(list)
    for job in ready:
        by_subject[wakeup_subject(job.namespace, job.queue, job.priority)].append(job.job_id.bytes)
    for subject, ids in by_subject.items():
        for start in range(0, len(ids), JOBS_A_MESSAGE):
            wakeup = WakeUp(version=WAKEUP_VERSION, job_ids=ids[start : start + JOBS_A_MESSAGE])
            yield subject, wakeup.SerializeToString()


def jobs_of(messages: Iterable[OutboxMessage]) -> int:
    """How many jobs these wake-ups are for."""
    return sum(len(WakeUp.FromString(message.body).job_ids) for message in messages)


def wakeup_subject(namespace: str, queue: str, priority: int) -> str:
    """Where wake-ups of a queue and priority are published."""
    return f"jm.job.{queue_token(namespace, queue)}.{priority}"
