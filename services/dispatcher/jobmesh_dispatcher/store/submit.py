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

import itertools
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, NamedTuple
from uuid import UUID

from jobmesh.errors import JobmeshError, RequestIdReused
from jobmesh_dispatcher import failpoints
from jobmesh_dispatcher.sql import load
from jobmesh_dispatcher.store.outbox import (
    OutboxMessage,
    Ready,
    wakeup_messages,
    write_wakeups,
)
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
    """A call that is all or nothing has a submission that must be refused: nothing is stored."""

    def __init__(self, outcomes: list[Outcome]) -> None:
        self.outcomes = outcomes


async def store_calls(
    connection: Connection, calls: Sequence[Call]
) -> tuple[list[Outcome], list[OutboxMessage]]:
    """Store what the calls bring.

    Outcomes stand in the order of all submissions; messages are to be published after the commit.
    """
    submissions = [submission for call in calls for submission in call.submissions]
    await failpoints.reach("submit.before_commit")
    rows, messages = await _store(connection, calls)
    outcomes: dict[UUID, Outcome] = {
        job_id: Stored(job_id, True, row) for job_id, row in rows.items()
    }
    if late := [s for s in submissions if s.job_id not in outcomes]:
        outcomes.update(await _settled_before(connection, late))
    results = [outcomes[submission.job_id] for submission in submissions]
    if any(is_refused(call, part) for call, part in zip(calls, deal(calls, results), strict=True)):
        raise Refused(results)
    if timed := [s for s in submissions if s.job_id in rows and s.is_timed]:
        messages += await write_wakeups(connection, _ready(timed, rows))
    return results, messages


def deal(calls: Sequence[Call], outcomes: Sequence[Outcome]) -> list[list[Outcome]]:
    """To each call its outcomes."""
    ends = itertools.accumulate(len(call.submissions) for call in calls)
    return [
        list(outcomes[end - len(call.submissions) : end])
        for call, end in zip(calls, ends, strict=True)
    ]


def is_refused(call: Call, outcomes: Sequence[Outcome]) -> bool:
    """Whether nothing of the call may be stored."""
    return call.atomic and any(isinstance(outcome, JobmeshError) for outcome in outcomes)


def is_one_statement(calls: Sequence[Call]) -> bool:
    """Whether `store_calls` writes all with its first statement, and needs no transaction for it.

    Jobs with a time are woken once the database has said whether it has passed; a call that is all
    or nothing may have to be undone for a request id.
    """
    return not any(
        submission.is_timed or (call.atomic and submission.request_id)
        for call in calls
        for submission in call.submissions
    )


async def _store(
    connection: Connection, calls: Sequence[Call]
) -> tuple[dict[UUID, Record], list[OutboxMessage]]:
    """Rows of the jobs that were stored now, by id, and what is owed to the broker for them."""
    pairs = [(call, submission) for call in calls for submission in call.submissions]
    pairs.sort(key=lambda pair: pair[1].job_id)
    columns = map(list, zip(*(s.columns(call.operation_id) for call, s in pairs), strict=True))
    # A wake-up for a job that is then found to be stored already does no harm.
    wakeups = list(wakeup_messages(_awake(submission for _, submission in pairs)))
    rows = await connection.fetch(
        load("store_jobs"),
        *columns,
        [subject for subject, _ in wakeups],
        [body for _, body in wakeups],
    )
    stored = {row["job_id"]: row for row in rows if row["job_id"] is not None}
    owed = [OutboxMessage(row["id"], row["subject"], row["body"]) for row in rows if row["id"]]
    return stored, owed


async def _settled_before(
    connection: Connection, late: Sequence[Submission]
) -> dict[UUID, Outcome]:
    """What became of submissions that were not stored now.

    Their call was sent before, or their request id is taken; both are committed by now, and this
    statement sees them.
    """
    rows = await connection.fetch(load("existing_jobs"), [s.job_id for s in late])
    outcomes: dict[UUID, Outcome] = {
        row["job_id"]: Stored(row["job_id"], True, None) for row in rows
    }
    others = [s for s in late if s.job_id not in outcomes]
    if keyed := [s for s in others if s.request_id]:
        outcomes.update(await _compare(connection, keyed))
    # Stored, ended and deleted since.
    gone = {s.job_id: Stored(s.job_id, True, None) for s in others if s.job_id not in outcomes}
    return outcomes | gone


async def _compare(connection: Connection, late: Sequence[Submission]) -> dict[UUID, Outcome]:
    rows = await connection.fetch(
        load("read_request_ids"), [s.namespace for s in late], [s.request_id for s in late]
    )
    holders = {(row["namespace"], row["request_id"]): row for row in rows}
    return {
        s.job_id: _same_or_reused(s, holder)
        for s in late
        if (holder := holders.get((s.namespace, s.request_id))) is not None
    }


def _same_or_reused(submission: Submission, holder: Record) -> Outcome:
    if holder["digest"] != submission.digest:
        return RequestIdReused(submission.request_id, str(holder["job_id"]))
    return Stored(holder["job_id"], holder["job_id"] == submission.job_id, None)


def _awake(submissions: Iterable[Submission]) -> Iterable[Ready]:
    for submission in submissions:
        if not submission.is_timed:
            yield _as_ready(submission)


def _ready(submissions: Iterable[Submission], rows: dict[UUID, Record]) -> Iterable[Ready]:
    for submission in submissions:
        if rows[submission.job_id]["state"] == "QUEUED":
            yield _as_ready(submission)


def _as_ready(submission: Submission) -> Ready:
    spec = submission.spec
    return Ready(submission.namespace, spec.queue, spec.priority, submission.job_id)
