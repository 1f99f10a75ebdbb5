"""Retrying by hand.

A terminal job is queued again, under the attempts that come after those it had.
"""

from __future__ import annotations

from typing import TYPE_CHECKING
from uuid import UUID

from jobmesh.errors import NotFound, WrongState
from jobmesh.v1.job_pb2 import JobSpec
from jobmesh_dispatcher.sql import load
from jobmesh_dispatcher.store.cancel import LOOKS, check_revision
from jobmesh_dispatcher.store.consequences import owe_messages
from jobmesh_dispatcher.store.outbox import OutboxMessage
from jobmesh_dispatcher.submission import expiry_seconds

if TYPE_CHECKING:
    from asyncpg import Record

    from jobmesh.v1.job_service_pb2 import RetryJobRequest
    from jobmesh_dispatcher.database import Connection


async def revive_once(
    connection: Connection, operation_id: UUID, namespace: str, request: RetryJobRequest
) -> tuple[list[Record], list[OutboxMessage]]:
    """As `revive`, and nothing if this call was carried out before.

    The job may have ended again since then: it would be retried once more than anybody asked for.
    """
    if not await connection.fetch(load("insert_operations"), [operation_id]):
        return [], []
    row, messages = await revive(connection, namespace, request)
    return [row], messages


async def revive(
    connection: Connection, namespace: str, request: RetryJobRequest
) -> tuple[Record, list[OutboxMessage]]:
    """Queue a terminal job again.

    Raises `NotFound`, `WrongState` unless it is terminal, `RevisionMismatch`.
    """
    job_id = UUID(request.job_id)
    job = await _lock_ended(connection, namespace, job_id, _expected(request))
    if job["too_late"]:
        raise WrongState(job["state"], "the job's deadline has passed: submit it anew")
    payload = request.payload if request.HasField("payload") else None
    row = await connection.fetchrow(
        load("revive_job"),
        namespace,
        job_id,
        payload.data if payload else None,
        (payload.content_type or "application/json") if payload else "",
        expiry_seconds(JobSpec.FromString(job["spec"])),
    )
    assert row is not None, "a job that is locked has gone"
    return row, await owe_messages(connection, [row])


async def _lock_ended(
    connection: Connection, namespace: str, job_id: UUID, expected: int | None
) -> Record:
    """The job, locked.

    Of a job that has gone on the revision is compared first: whoever repeats a retry, since its
    answer was lost, is told that the revision is another one, and by it can tell that it was done.
    """
    for _ in range(LOOKS):
        job: Record | None = await connection.fetchrow(load("lock_terminal_job"), namespace, job_id)
        if job is not None:
            check_revision(expected, job["revision"])
            return job
        live = await connection.fetchrow(load("lock_job"), namespace, job_id)
        if live is not None:
            check_revision(expected, live["revision"])
            state = live["state"]
            raise WrongState(state, f"only a job that has ended can be retried: it is {state}")
    raise NotFound.job(str(job_id))


def _expected(request: RetryJobRequest) -> int | None:
    return request.expected_revision if request.HasField("expected_revision") else None
