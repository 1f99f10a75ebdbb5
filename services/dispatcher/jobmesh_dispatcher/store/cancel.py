"""Cancelling.

At once where nothing runs, else by asking the handler, durably and for as long as it takes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple
from uuid import UUID

from jobmesh.errors import NotFound, RevisionMismatch, WrongState
from jobmesh_dispatcher.sql import load

if TYPE_CHECKING:
    from asyncpg import Record

    from jobmesh_dispatcher.database import Connection

# A job that moves between the tables while both are looked at may be missed in each, once.
LOOKS = 2


class Cancelled(NamedTuple):
    """`row` is the change that was made, if any.

    `session_id` is whose runner has to stop a handler.
    """

    row: Record | None
    session_id: UUID | None


async def cancel(
    connection: Connection, namespace: str, job_id: UUID, reason: str, expected_revision: int | None
) -> Cancelled:
    """Cancel a job.

    Raises `NotFound`, `WrongState` if it has succeeded or died, `RevisionMismatch`.
    """
    for _ in range(LOOKS):
        job = await connection.fetchrow(load("lock_job"), namespace, job_id)
        if job is not None:
            check_revision(expected_revision, job["revision"])
            return await _cancel_live(connection, job, reason)
        ended = await connection.fetchrow(load("lock_terminal_job"), namespace, job_id)
        if ended is not None:
            check_revision(expected_revision, ended["revision"])
            return _already_terminal(ended)
    raise NotFound.job(str(job_id))


async def _cancel_live(connection: Connection, job: Record, reason: str) -> Cancelled:
    job_id = job["job_id"]
    if job["state"] == "CANCELLING":
        return Cancelled(None, job["session_id"])
    if job["state"] == "RUNNING":
        row = await connection.fetchrow(load("cancel_running"), job_id, job["attempt"], reason)
        return Cancelled(row, job["session_id"])
    row = await connection.fetchrow(
        load("bury_jobs"), [job_id], [job["state"]], ["CANCELLED"], ["CANCELLED"], [0], [reason]
    )
    return Cancelled(row, None)


def _already_terminal(job: Record) -> Cancelled:
    if job["state"] != "CANCELLED":
        raise WrongState(job["state"], f"the job has ended: it is {job['state']}")
    return Cancelled(None, None)


def check_revision(expected: int | None, actual: int) -> None:
    """Raise `RevisionMismatch` if the caller saw another revision."""
    if expected is not None and expected != actual:
        raise RevisionMismatch(expected, actual)
