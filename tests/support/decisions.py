"""The dispatcher's decisions, called one by one, for tests of what they guarantee together."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any
from uuid import UUID

from asyncpg import Record

from jobmesh.ids import new_id
from jobmesh.v1 import runner_service_pb2 as pb
from jobmesh.v1.job_pb2 import JobError, JobSpec, Payload
from jobmesh_dispatcher.claiming import Seat
from jobmesh_dispatcher.database import Database
from jobmesh_dispatcher.lease import Lease
from jobmesh_dispatcher.queue_token import queue_token
from jobmesh_dispatcher.sql import load
from jobmesh_dispatcher.store.claim import Claimed, claim
from jobmesh_dispatcher.store.finish import Ended, Recorded, record
from jobmesh_dispatcher.store.submit import Call, Outcome, Stored, store_calls
from jobmesh_dispatcher.submission import Submission
from tests.support.wait import until

NAMESPACE = "default"
QUEUE = "default"


def uid() -> UUID:
    return UUID(new_id())


@asynccontextmanager
async def opened(dsn: str, size: int = 10) -> AsyncIterator[Database]:
    """A dispatcher's pool."""
    database = Database(dsn, size=size)
    await database.start()
    try:
        yield database
    finally:
        await database.stop()


def submission(**spec: Any) -> Submission:
    """A job to store; `request_id` and `digest` beside the fields of its spec."""
    request_id, digest = spec.pop("request_id", ""), spec.pop("digest", b"d")
    fields: dict[str, Any] = {"queue": QUEUE, "type": "t", "priority": 4} | spec
    job = JobSpec(**fields)
    return Submission(uid(), NAMESPACE, job, b"{}", "application/json", request_id, digest, "")


async def make_queue(database: Database, name: str = QUEUE, max_running: int | None = None) -> None:
    """A queue as a dispatcher knows it; with a limit, its count begins at 0."""
    token = queue_token(NAMESPACE, name)
    await database.fetch(load("use_queues"), [NAMESPACE], [name], [token], [1 << 4])
    if max_running is not None:
        await database.fetch(
            "UPDATE jobmesh.queues SET max_running = $1 WHERE name = $2", max_running, name
        )
        await database.fetch("INSERT INTO jobmesh.queue_slots VALUES ($1, $2, 0)", NAMESPACE, name)


async def store(
    database: Database, *submissions: Submission, operation: UUID | None = None
) -> list[Outcome]:
    """Store submissions as one call."""
    call = Call(operation or uid(), submissions, False)
    outcomes, _ = await database.run(lambda c: store_calls(c, [call]))
    return outcomes


async def store_one(database: Database, **spec: Any) -> UUID:
    """Store a job; its id."""
    (outcome,) = await store(database, submission(**spec))
    assert isinstance(outcome, Stored)
    return outcome.job_id


async def swell(database: Database, size: int) -> None:
    """Give all live jobs a payload and a checkpoint of so many bytes together."""
    await database.fetch(
        """UPDATE jobmesh.jobs_live SET payload = $1, checkpoint = $1, checkpoint_type = ''
           RETURNING job_id""",
        bytes(size // 2),
    )


async def attach(database: Database, *, free: int = 10, types: Sequence[str] = ("t",)) -> Seat:
    """A new session with room."""
    seat = Seat(uid(), uid(), "runner", NAMESPACE, frozenset(types), None, max(1, free), free, 0)
    await reattach(database, seat)
    return seat


def seat_of(lease: Lease) -> Seat:
    """The seat of the lease's session at its attachment."""
    assert lease.attachment is not None
    types = frozenset({lease.type})
    return Seat(lease.session_id, lease.attachment, "runner", NAMESPACE, types, None, 1, 0, 1)


async def reattach(database: Database, seat: Seat) -> bool:
    """Write the seat's attachment; False if its session has ended."""
    rows = await database.fetch(
        load("upsert_session"),
        seat.session_id,
        seat.attachment,
        seat.runner_id,
        NAMESPACE,
        uid(),
        seat.slots,
        sorted(seat.types),
        [],
        "0",
    )
    return bool(rows)


async def claim_all(
    database: Database, job_ids: Sequence[UUID], *seats: Seat, queue: str = QUEUE
) -> Claimed:
    """Claim jobs as if their wake-ups had come."""
    tokens = [queue_token(NAMESPACE, queue)]
    return await database.run(lambda c: claim(c, job_ids, tokens, seats))


def leases(claimed: Claimed) -> list[Lease]:
    """What the dispatcher remembers of a claim."""
    return [Lease.from_row(row) for row in claimed.rows]


def succeeded(lease: Lease, run_seconds: float = 0.001) -> Ended:
    """A report that a handler returned."""
    return _ended(lease, run_seconds, succeeded=pb.Succeeded(result=Payload(data=b"1")))


def failed(lease: Lease, *, retryable: bool = True) -> Ended:
    """A report that a handler raised."""
    error = JobError(type="ValueError", message="no", retryable=retryable)
    return _ended(lease, 0.001, failed=pb.Failed(error=error))


def interrupted(lease: Lease) -> Ended:
    """A report that a runner gives a job back."""
    return _ended(lease, 0.0, interrupted=pb.Interrupted())


def _ended(lease: Lease, run_seconds: float, **outcome: Any) -> Ended:
    report = pb.Report(
        job_id=str(lease.job_id), attempt=lease.attempt, run_seconds=run_seconds, **outcome
    )
    return Ended(report, lease)


async def report(database: Database, *ended: Ended) -> Recorded:
    """Record reports as one batch."""
    return await database.run(lambda c: record(c, ended))


async def job(database: Database, job_id: UUID) -> Record:
    """A job as it stands, live or ended; exactly one row."""
    columns = (
        "job_id, state, reason, hold_reason, revision, attempt, failures, crashes, history, "
        "attempts, session_id, slot, claim_time, start_time"
    )
    rows = await database.fetch(
        f"SELECT {columns} FROM jobmesh.jobs_live WHERE job_id = $1 "
        f"UNION ALL SELECT {columns} FROM jobmesh.jobs_history WHERE job_id = $1",
        job_id,
    )
    assert len(rows) == 1, f"{len(rows)} rows of job {job_id}"
    return rows[0]


async def blocked(database: Database) -> None:
    """Return once somebody waits for a lock."""
    await until(lambda: waiting(database), timeout=5, describe="somebody waits for a lock")


async def waiting(database: Database, number: int = 1) -> bool:
    """Whether so many wait for locks."""
    rows = await database.fetch(
        """SELECT 1 FROM pg_stat_activity
           WHERE wait_event_type = 'Lock' AND datname = current_database()"""
    )
    return len(rows) >= number


async def awake(database: Database) -> set[UUID]:
    """The jobs that the outbox still owes a wake-up."""
    from jobmesh.v1.broker_pb2 import WakeUp

    rows = await database.fetch("SELECT body FROM jobmesh.outbox WHERE subject LIKE 'jm.job.%'")
    return {UUID(bytes=i) for row in rows for i in WakeUp.FromString(row["body"]).job_ids}
