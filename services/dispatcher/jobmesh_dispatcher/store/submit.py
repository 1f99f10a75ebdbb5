"""Storing jobs: once for each submission, however often the call that carries it is sent.

Guarantee: when `store_calls` has committed, each submission of the calls has exactly one job, and
each of those that is ready has a wake-up in the outbox. What happens on a failure:

* The process dies before the commit: nothing is stored, and the caller tries again.
* It dies after the commit, or the answer is lost: the call is sent again under its operation id,
  which is a row by now, so that its jobs are looked up (they may even have ended meanwhile) and not
  stored again.
* Two calls bring the same request id: the insert of the second waits for the first, and a later
  statement reads what it committed.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, NamedTuple
from uuid import UUID

from jobmesh.errors import JobmeshError, RequestIdReused
from jobmesh_dispatcher import failpoints
from jobmesh_dispatcher.sql import load
from jobmesh_dispatcher.store.outbox import OutboxMessage, Ready, write_wakeups
from jobmesh_dispatcher.submission import Submission

if TYPE_CHECKING:
    from asyncpg import Record

    from jobmesh_dispatcher.database import Connection


class Call(NamedTuple):
    """One call of a gateway."""

    operation_id: UUID
    submissions: Sequence[Submission]
    atomic: bool


class Stored(NamedTuple):
    """A submission has its job.

    `row` holds state, create_time and run_at if this transaction stored it.
    """

    job_id: UUID
    created: bool
    row: Record | None


Outcome = Stored | JobmeshError


class Refused(Exception):
    """An atomic call has a submission that must be refused."""

    def __init__(self, outcomes: list[Outcome]) -> None:
        self.outcomes = outcomes


async def store_calls(
    connection: Connection, calls: Sequence[Call]
) -> tuple[list[Outcome], list[OutboxMessage]]:
    """Store what the calls bring.

    Outcomes stand in the order of all submissions; messages are to be published after the commit.
    """
    submissions = [submission for call in calls for submission in call.submissions]
    existing = await _jobs_of_resent_calls(connection, calls)
    outcomes = await _claim_request_ids(connection, submissions, existing)
    if any(call.atomic for call in calls) and any(
        isinstance(o, JobmeshError) for o in outcomes.values()
    ):
        raise Refused([outcomes.get(s.job_id, Stored(s.job_id, True, None)) for s in submissions])
    fresh = [s for s in submissions if s.job_id not in outcomes]
    rows = await _insert_jobs(connection, fresh)
    messages = await write_wakeups(connection, _ready(fresh, rows))
    for submission in fresh:
        outcomes[submission.job_id] = Stored(submission.job_id, True, rows.get(submission.job_id))
    await failpoints.reach("submit.before_commit")
    return [outcomes[submission.job_id] for submission in submissions], messages


async def _jobs_of_resent_calls(connection: Connection, calls: Sequence[Call]) -> set[UUID]:
    """Jobs that an earlier sending of one of these calls has stored."""
    new = await connection.fetch(load("insert_operations"), [call.operation_id for call in calls])
    known = {row["operation_id"] for row in new}
    ids = [s.job_id for call in calls if call.operation_id not in known for s in call.submissions]
    if not ids:
        return set()
    return {row["job_id"] for row in await connection.fetch(load("existing_jobs"), ids)}


async def _claim_request_ids(
    connection: Connection, submissions: Sequence[Submission], existing: set[UUID]
) -> dict[UUID, Outcome]:
    """What is settled already: jobs that exist, and requests whose id is taken."""
    outcomes: dict[UUID, Outcome] = {job_id: Stored(job_id, True, None) for job_id in existing}
    keyed = [s for s in submissions if s.request_id and s.job_id not in existing]
    if not keyed:
        return outcomes
    taken = await connection.fetch(
        load("insert_request_ids"),
        [s.namespace for s in keyed],
        [s.request_id for s in keyed],
        [s.job_id for s in keyed],
        [s.digest for s in keyed],
    )
    ours = {row["job_id"] for row in taken}
    if late := [s for s in keyed if s.job_id not in ours]:
        outcomes.update(await _compare(connection, late))
    return outcomes


async def _compare(connection: Connection, late: Sequence[Submission]) -> dict[UUID, Outcome]:
    rows = await connection.fetch(
        load("read_request_ids"), [s.namespace for s in late], [s.request_id for s in late]
    )
    holders = {(row["namespace"], row["request_id"]): row for row in rows}
    return {s.job_id: _same_or_reused(s, holders[s.namespace, s.request_id]) for s in late}


def _same_or_reused(submission: Submission, holder: Record) -> Outcome:
    if holder["digest"] != submission.digest:
        return RequestIdReused(submission.request_id, str(holder["job_id"]))
    return Stored(holder["job_id"], holder["job_id"] == submission.job_id, None)


async def _insert_jobs(connection: Connection, fresh: Sequence[Submission]) -> dict[UUID, Record]:
    if not fresh:
        return {}
    in_order = sorted(fresh, key=lambda s: s.job_id)
    columns = list(zip(*(s.columns() for s in in_order), strict=True))
    rows = await connection.fetch(load("insert_jobs"), *map(list, columns))
    return {row["job_id"]: row for row in rows}


def _ready(fresh: Iterable[Submission], rows: dict[UUID, Record]) -> Iterable[Ready]:
    for submission in fresh:
        row = rows.get(submission.job_id)
        if row is not None and row["state"] == "QUEUED":
            spec = submission.spec
            yield Ready(submission.namespace, spec.queue, spec.priority, submission.job_id)
