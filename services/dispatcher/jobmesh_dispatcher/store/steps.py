"""Steps of handlers: what they came to is stored under their job, for later attempts to find.

Guarantee: the result that was committed first stands, whoever brings another one. Only the attempt
that holds the job stores and reads: its row is locked, so that nothing is stored by an attempt that
has ended once its successor may have asked.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum
from typing import TYPE_CHECKING, NamedTuple
from uuid import UUID

from jobmesh.v1.job_pb2 import Payload
from jobmesh_dispatcher.sql import load

if TYPE_CHECKING:
    from jobmesh_dispatcher.database import Connection
    from jobmesh_dispatcher.lease import Lease

MOST_STEPS = 1000


class Step(NamedTuple):
    """A step under its lease; `result` of None asks for what is stored."""

    lease: Lease
    key: str
    result: Payload | None


class Known(Enum):
    """What is known of a step after all."""

    STORED = "stored"  # what was brought, just now
    FOUND = "found"  # what was stored before
    ABSENT = "absent"
    LEASE_LOST = "lease lost"
    REFUSED = "refused"  # the job has too many


class Answer(NamedTuple):
    """What is known of a step; `result` if it was FOUND."""

    known: Known
    result: Payload | None = None


async def settle(connection: Connection, steps: Sequence[Step]) -> list[Answer]:
    """Store what is brought, and find what is asked for or stands already."""
    fresh = await _save(connection, [step for step in steps if step.result is not None])
    # In a later statement, whose snapshot has what another one stored meanwhile.
    others = [s for s in steps if s.result is None or (s.lease.job_id, s.key) not in fresh]
    found = await _read(connection, others)
    return [_answer(step, fresh, found) for step in steps]


async def _save(connection: Connection, steps: Sequence[Step]) -> set[tuple[UUID, str]]:
    if not steps:
        return set()
    rows = await connection.fetch(
        load("save_steps"),
        *_columns(steps),
        [step.result.data for step in steps if step.result is not None],
        [step.result.content_type or "application/json" for step in steps if step.result],
        MOST_STEPS,
    )
    return {(row["job_id"], row["key"]) for row in rows}


async def _read(
    connection: Connection, steps: Sequence[Step]
) -> dict[tuple[UUID, int, str], Payload | None]:
    if not steps:
        return {}
    rows = await connection.fetch(load("read_steps"), *_columns(steps))
    return {
        (row["job_id"], row["attempt"], row["key"]): None
        if row["result"] is None
        else Payload(data=row["result"], content_type=row["result_type"])
        for row in rows
    }


def _columns(steps: Sequence[Step]) -> tuple[list[object], ...]:
    return (
        [step.lease.job_id for step in steps],
        [step.lease.attempt for step in steps],
        [step.lease.session_id for step in steps],
        [step.key for step in steps],
    )


def _answer(
    step: Step,
    fresh: set[tuple[UUID, str]],
    found: dict[tuple[UUID, int, str], Payload | None],
) -> Answer:
    lease = step.lease
    if step.result is not None and (lease.job_id, step.key) in fresh:
        return Answer(Known.STORED)
    key = (lease.job_id, lease.attempt, step.key)
    if key not in found:
        return Answer(Known.LEASE_LOST)
    result = found[key]
    if result is not None:
        return Answer(Known.FOUND, result)
    return Answer(Known.ABSENT if step.result is None else Known.REFUSED)
