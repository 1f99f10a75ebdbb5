"""Storing jobs: once for each submission, however often the call that carries it is sent.

Guarantee: when `store_calls` has committed, each submission of the calls has exactly one job, and
each of those that is ready has a wake-up in the outbox, or a lease. What happens on a failure:

* The process dies before the commit: nothing is stored, and the caller tries again.
* It dies after the commit, or the answer is lost: the call is sent again under its operation id,
  which is a row by now, so that its jobs are looked up (they may even have ended meanwhile) and not
  stored again.
* A job that has a seat is claimed by the same statement, if its session is still attached and its
  queue neither limited nor paused: it has a lease then, and is owed no wake-up.
* Two calls bring the same request id: the insert of the second waits for the first, and a later
  statement reads what it committed.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple
from uuid import UUID

from jobmesh.errors import JobmeshError, RequestIdReused
from jobmesh_dispatcher import failpoints
from jobmesh_dispatcher.queue_token import queue_token
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

    from jobmesh_dispatcher.claiming import Seat
    from jobmesh_dispatcher.database import Connection

NO_SEATS: Mapping[UUID, Seat] = MappingProxyType({})


class Call(NamedTuple):
    """One call of a gateway."""

    operation_id: UUID
    submissions: Sequence[Submission]
    atomic: bool


class Stored(NamedTuple):
    """A submission has its job.

    `row` holds state, create_time and run_at if this transaction stored it; and session_id and
    claim_time if it claimed it, too.
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
    connection: Connection, calls: Sequence[Call], seats: Mapping[UUID, Seat] = NO_SEATS
) -> tuple[list[Outcome], list[OutboxMessage]]:
    """Store what the calls bring. `seats` are those of jobs that may begin at once.

    Outcomes stand in the order of all submissions; messages are to be published after the commit.
    """
    submissions = [submission for call in calls for submission in call.submissions]
    await failpoints.reach("submit.before_commit")
    rows, messages = await _store(connection, calls, seats)
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
    connection: Connection, calls: Sequence[Call], seats: Mapping[UUID, Seat]
) -> tuple[dict[UUID, Record], list[OutboxMessage]]:
    """Rows of the jobs that were stored now, by id, and what is owed to the broker for them."""
    pairs = [(call, submission) for call in calls for submission in call.submissions]
    pairs.sort(key=lambda pair: pair[1].job_id)
    columns = map(list, zip(*(s.columns(call.operation_id) for call, s in pairs), strict=True))
    jobs = [submission for _, submission in pairs]
    rows = await connection.fetch(
        load("store_jobs"), *columns, *_seat_columns(jobs, seats), *_wakeup_columns(jobs, seats)
    )
    stored = {row["job_id"]: row for row in rows if row["job_id"] is not None}
    owed = [OutboxMessage(row["id"], row["subject"], row["body"]) for row in rows if row["id"]]
    return stored, owed


def _seat_columns(
    jobs: Sequence[Submission], seats: Mapping[UUID, Seat]
) -> Iterable[Sequence[object]]:
    dealt = [seats.get(job.job_id) for job in jobs]
    attachments = {seat.session_id: seat.attachment for seat in seats.values()}
    queues = {(job.namespace, job.spec.queue) for job in jobs if job.job_id in seats}
    return (
        [seat and seat.session_id for seat in dealt],
        [seat and seat.runner_id for seat in dealt],
        list(attachments),
        list(attachments.values()),
        [queue_token(*queue) for queue in queues],
    )


def _wakeup_columns(
    jobs: Sequence[Submission], seats: Mapping[UUID, Seat]
) -> Iterable[Sequence[object]]:
    """Of the wake-ups that are owed; one of a job with a seat is for it alone.

    One for a job that is then found to be stored already does no harm.
    """
    ready = [job for job in jobs if not job.is_timed]
    wakeups: list[tuple[str, bytes, UUID | None]] = [
        (*message, None)
        for message in wakeup_messages(_as_ready(job) for job in ready if job.job_id not in seats)
    ]
    for job in ready:
        if job.job_id in seats:
            wakeups += [(*message, job.job_id) for message in wakeup_messages([_as_ready(job)])]
    return [list(column) for column in zip(*wakeups, strict=True)] or ([], [], [])


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


def _ready(submissions: Iterable[Submission], rows: dict[UUID, Record]) -> Iterable[Ready]:
    for submission in submissions:
        if rows[submission.job_id]["state"] == "QUEUED":
            yield _as_ready(submission)


def _as_ready(submission: Submission) -> Ready:
    spec = submission.spec
    return Ready(submission.namespace, spec.queue, spec.priority, submission.job_id)
