"""Rows of jobs, put into the tables as they are, for tests of what reads them."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import asyncpg

from jobmesh.ids import new_id
from jobmesh.v1.job_pb2 import JobSpec

Connection = asyncpg.Connection

CREATED = datetime(2026, 11, 30, 12, tzinfo=UTC)
_LEASED = ("RUNNING", "CANCELLING")
_WAITING = ("SCHEDULED", "RETRYING")


def job_row(**columns: Any) -> dict[str, Any]:
    """A QUEUED job, or what `columns` say; columns that its state demands are filled in."""
    row: dict[str, Any] = {
        "job_id": UUID(new_id()),
        "namespace": "default",
        "queue": "default",
        "type": "hello",
        "priority": 4,
        "state": "QUEUED",
        "payload": b"{}",
        "payload_type": "application/json",
        "create_time": CREATED,
        "attempt": 0,
    }
    row |= columns
    state = row["state"]
    if state in _LEASED:
        row.setdefault("session_id", UUID(new_id()))
    if state in _WAITING:
        row.setdefault("run_at", CREATED)
    if state == "QUEUED":
        row.setdefault("queued_at", row["create_time"])
        row.setdefault("woken_at", row["create_time"])
    spec = JobSpec(queue=row["queue"], type=row["type"], priority=row["priority"])
    row.setdefault("spec", spec.SerializeToString())
    row.setdefault("history", [(1, state, "UNSPECIFIED", row["create_time"], row["attempt"])])
    return row


async def insert_live(connection: Connection, **columns: Any) -> str:
    """Put a job into `jobs_live`; its id."""
    return await _insert(connection, "jobs_live", job_row(**columns))


async def insert_ended(connection: Connection, **columns: Any) -> str:
    """Put a job that has ended into history; its id."""
    row = job_row(**({"state": "SUCCEEDED", "end_time": CREATED} | columns))
    return await _insert(connection, "jobs_history", row)


async def _insert(connection: Connection, table: str, row: dict[str, Any]) -> str:
    names = ", ".join(row)
    values = ", ".join(f"${number}" for number in range(1, len(row) + 1))
    await connection.execute(
        f"INSERT INTO jobmesh.{table} ({names}) VALUES ({values})", *row.values()
    )
    return str(row["job_id"])
