"""Recording outcomes: at most one for each attempt, with all that follows from it.

Guarantee: when `record` has committed, each report has been either recorded (now, or by an earlier
sending of it) or refused because its lease is lost; a job that left RUNNING gave its slot back, a
held job of its queue has taken it over or was woken for it (or will be by the leader's repair, if
others have just locked all that wait), and a job that is ready again or dead has its message in the
outbox.

* A report that is repeated, since its answer was lost, finds its attempt among those that ended:
  recorded, and nothing is written.
* A report of a lease that ended with its session finds it LOST, or a newer attempt: refused.
* A success needs no look at the job first: SUCCEEDED follows from RUNNING and from CANCELLING
  alike. Everything else depends on the state, so the jobs are locked first.
* Successes of jobs that hold no slot, which is most of what ends, need one statement and no
  transaction around it. What holds a slot after all, as its queue has just been limited, is left.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple
from uuid import UUID

from jobmesh_dispatcher.lease import lease_columns
from jobmesh_dispatcher.outcomes import Verdict, decide
from jobmesh_dispatcher.sql import load
from jobmesh_dispatcher.store.claim import Claimed, QueueName
from jobmesh_dispatcher.store.consequences import owe_messages
from jobmesh_dispatcher.store.hand_over import Places, hand_over, hold_places
from jobmesh_dispatcher.store.outbox import OutboxMessage

if TYPE_CHECKING:
    from asyncpg import Record

    from jobmesh.v1.runner_service_pb2 import Report
    from jobmesh_dispatcher.claiming import Seat
    from jobmesh_dispatcher.database import Connection
    from jobmesh_dispatcher.lease import Lease

Key = tuple[UUID, int]


class Ended(NamedTuple):
    """A report, and the lease it is about."""

    report: Report
    lease: Lease


@dataclass(slots=True)
class Recorded:
    """`rows` are those of `finish_jobs.sql` and `return_jobs.sql`.

    `settled` names the reports to be answered with "recorded". `handed` is what became of the slots
    that were given back: jobs that took them over, and messages of those that were woken for them.
    """

    rows: list[Record] = field(default_factory=list)
    settled: set[Key] = field(default_factory=set)
    messages: list[OutboxMessage] = field(default_factory=list)
    handed: Claimed = field(default_factory=Claimed)


class Final(NamedTuple):
    """A report with its verdict."""

    ended: Ended
    verdict: Verdict


async def record(
    connection: Connection, reports: Sequence[Ended], seats: Sequence[Seat] = ()
) -> Recorded:
    """Record what can be; see the module for what is guaranteed.

    `seats` are for jobs that take over the slots of those that end.
    """
    # A runner that moved may have reported the same attempt to both of its streams.
    reports = list({ended.lease.key: ended for ended in reports}.values())
    result = Recorded()
    places = await _hold_places(connection, reports, seats)
    finals, counted = await _verdicts(connection, reports)
    terminal = [f for f in finals if f.verdict.state in ("SUCCEEDED", "CANCELLED", "DEAD")]
    waiting = [f for f in finals if f.verdict.state not in ("SUCCEEDED", "CANCELLED", "DEAD")]
    if terminal:
        rows = await connection.fetch(load("finish_jobs"), *_finish_columns(terminal), True)
        counted.update((row["namespace"], row["queue"]) for row in rows if row["slot"])
        result.rows += rows
    if waiting:
        result.rows += await connection.fetch(load("return_jobs"), *_return_columns(waiting))
    result.settled = {(row["job_id"], row["attempt"]) for row in result.rows}
    result.settled |= await _settled_before(connection, reports, result.settled)
    result.messages = await owe_messages(connection, result.rows)
    if counted:
        result.handed = await hand_over(connection, counted, places)
    return result


def may_be_alone(reports: Sequence[Ended]) -> bool:
    """Whether `record_alone` is for these."""
    return all(e.report.HasField("succeeded") and not e.lease.counted for e in reports)


async def record_alone(connection: Connection, reports: Sequence[Ended]) -> Recorded:
    """Record successes of jobs that hold no slot by one statement; what it did not settle is left.

    That is for `record`: it was recorded before, its lease is lost, or it holds a slot.
    """
    successes = {e.lease.key: Final(e, decide(e.report, e.lease, "RUNNING", 0.0)) for e in reports}
    columns = _finish_columns(list(successes.values()))
    rows = await connection.fetch(load("finish_jobs"), *columns, False)
    return Recorded(rows, {(row["job_id"], row["attempt"]) for row in rows})


async def _hold_places(
    connection: Connection, reports: Sequence[Ended], seats: Sequence[Seat]
) -> Places:
    """Slots come before jobs in the order of locks.

    A queue that got its limit meanwhile comes late, and may cost a repetition.
    """
    queues = {(e.lease.namespace, e.lease.queue) for e in reports if e.lease.counted}
    return await hold_places(connection, queues, seats) if queues else Places({}, [])


async def _verdicts(
    connection: Connection, reports: Sequence[Ended]
) -> tuple[list[Final], Counter[QueueName]]:
    """The verdict on each report whose lease holds.

    And the slots of the jobs that will run again, which are given back.
    """
    successes, others = _by_success(reports)
    finals = [Final(e, decide(e.report, e.lease, "RUNNING", 0.0)) for e in successes]
    counted: Counter[QueueName] = Counter()
    if others:
        leases = [e.lease for e in others.values()]
        for row in await connection.fetch(load("lock_leased"), *lease_columns(leases)):
            ended = others[row["job_id"], row["attempt"]]
            verdict = decide(
                ended.report, ended.lease, row["state"], random.random(), row["seconds_left"]
            )
            final = Final(ended, verdict)
            finals.append(final)
            if row["slot"] and final.verdict.state in ("RETRYING", "SCHEDULED", "QUEUED"):
                counted[row["namespace"], row["queue"]] += 1
    return finals, counted


def _by_success(reports: Sequence[Ended]) -> tuple[list[Ended], dict[Key, Ended]]:
    successes: list[Ended] = []
    others: dict[Key, Ended] = {}
    for ended in reports:
        if ended.report.HasField("succeeded"):
            successes.append(ended)
        else:
            others[ended.lease.key] = ended
    return successes, others


async def _settled_before(
    connection: Connection, reports: Sequence[Ended], now: set[Key]
) -> set[Key]:
    late = [e.lease.key for e in reports if e.lease.key not in now]
    return await settled(connection, late)


async def settled(connection: Connection, keys: Sequence[Key]) -> set[Key]:
    """Which of these attempts had an outcome recorded that a report of theirs may have brought."""
    if not keys:
        return set()
    rows = await connection.fetch(
        load("settled_reports"), [k[0] for k in keys], [k[1] for k in keys]
    )
    return {(row["job_id"], row["attempt"]) for row in rows if row["outcome"] != "LOST"}


def _finish_columns(finals: Sequence[Final]) -> list[list[object]]:
    finals = sorted(finals, key=lambda f: f.ended.lease.job_id)
    return list(map(list, zip(*map(_finish_row, finals), strict=True)))


def _finish_row(final: Final) -> tuple[object, ...]:
    report, verdict = final.ended.report, final.verdict
    succeeded = report.succeeded if verdict.state == "SUCCEEDED" else None
    return (
        *_head(final),
        succeeded.result.data if succeeded else None,
        (succeeded.result.content_type or "application/json") if succeeded else None,
        *_error(report),
        _progress(report),
        report.run_seconds,
        int(verdict.crashed),
    )


def _return_columns(finals: Sequence[Final]) -> list[list[object]]:
    finals = sorted(finals, key=lambda f: f.ended.lease.job_id)
    return list(map(list, zip(*map(_return_row, finals), strict=True)))


def _return_row(final: Final) -> tuple[object, ...]:
    report = final.ended.report
    return (
        *_head(final),
        final.verdict.delay,
        *_error(report),
        _progress(report),
        report.run_seconds,
        int(final.verdict.crashed),
        final.verdict.cleared,
    )


def _head(final: Final) -> tuple[object, ...]:
    lease, verdict = final.ended.lease, final.verdict
    return (
        lease.job_id,
        lease.attempt,
        lease.session_id,
        verdict.state,
        verdict.reason,
        verdict.attempt_outcome,
        1 if verdict.failed else 0,
    )


def _error(report: Report) -> tuple[bytes | None, str, str, bool]:
    if not report.HasField("failed"):
        return None, "", "", True
    error = report.failed.error
    return error.SerializeToString(), error.type, error.message, error.retryable


def _progress(report: Report) -> bytes | None:
    return report.progress.SerializeToString() if report.HasField("progress") else None
