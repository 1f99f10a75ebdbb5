"""From the row of a claim to what the runner is told, and what the dispatcher remembers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jobmesh.v1.job_pb2 import JobSpec, Payload
from jobmesh.v1.runner_service_pb2 import Assignment
from jobmesh_dispatcher.backoff import max_attempts
from jobmesh_dispatcher.lease import Lease

if TYPE_CHECKING:
    from asyncpg import Record

MOST_SECONDS = 366 * 86400.0


def assignment_of(row: Record) -> tuple[Lease, Assignment]:
    """The lease and the assignment of a row of `claim_jobs.sql`."""
    spec = JobSpec.FromString(row["spec"])
    assignment = Assignment(
        job_id=str(row["job_id"]),
        attempt=row["attempt"],
        namespace=row["namespace"],
        queue=row["queue"],
        type=row["type"],
        payload=Payload(data=row["payload"], content_type=row["payload_type"]),
        failures=row["failures"],
        traceparent=row["traceparent"],
        create_time=row["create_time"],
        max_attempts=max_attempts(spec.retry_policy),
        suspect=row["suspect"] > 0,
        steps=row["steps"],
    )
    if row["checkpoint"] is not None:
        assignment.checkpoint.data = row["checkpoint"]
        assignment.checkpoint.content_type = row["checkpoint_type"]
    if spec.HasField("timeout"):
        assignment.timeout.CopyFrom(spec.timeout)
    if spec.HasField("deadline"):
        assignment.deadline.CopyFrom(spec.deadline)
        assignment.time_left.FromMicroseconds(int(_bounded(row["seconds_left"]) * 1e6))
    if spec.HasField("heartbeat_timeout"):
        assignment.heartbeat_timeout.CopyFrom(spec.heartbeat_timeout)
    if spec.labels:
        assignment.labels.update(spec.labels)
    return Lease.from_row(row, spec), assignment


def _bounded(seconds: float) -> float:
    """Deadlines lie in the years 1 to 9999; timers take less."""
    return min(max(seconds, 0.0), MOST_SECONDS)
