"""A claimed job as the dispatcher remembers it.

What it needs to record its outcome without asking the database first.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING
from uuid import UUID

from jobmesh.v1.job_pb2 import JobSpec

if TYPE_CHECKING:
    from asyncpg import Record

    from jobmesh.v1.job_pb2 import RetryPolicy


@dataclass(slots=True)
class Lease:
    """One attempt of a job under one session.

    `counted` jobs hold a slot of their queue's `max_running`.
    """

    job_id: UUID
    attempt: int
    session_id: UUID
    namespace: str
    queue: str
    priority: int
    type: str
    failures: int
    crashes: int
    suspect: int  # 0 no, 1 of taking its runner down, 2 in spite of a process of its own
    policy: RetryPolicy
    counted: bool
    started: bool
    reported: bool
    log_lines: int
    log_bytes: int
    sequence: int = 0  # of progress and log events of this attempt
    attachment: UUID | None = None  # that holds it

    @property
    def key(self) -> tuple[UUID, int]:
        """The job and its fencing token."""
        return self.job_id, self.attempt

    @classmethod
    def from_row(cls, row: Record, spec: JobSpec | None = None) -> Lease:
        """From a row of `claim_jobs.sql` or `session_jobs.sql`; `spec` if it was parsed already."""
        return cls(
            job_id=row["job_id"],
            attempt=row["attempt"],
            session_id=row["session_id"],
            namespace=row["namespace"],
            queue=row["queue"],
            priority=row["priority"],
            type=row["type"],
            failures=row["failures"],
            crashes=row["crashes"],
            suspect=row["suspect"],
            policy=(spec or JobSpec.FromString(row["spec"])).retry_policy,
            counted=row["slot"],
            started=False,
            reported=False,
            log_lines=row["log_lines"],
            log_bytes=row["log_bytes"],
        )


def holder_columns(
    leases: Sequence[Lease],
) -> tuple[list[UUID], list[int], list[UUID], list[UUID | None]]:
    """These and attachments, for statements that must not act once another attachment has it."""
    return *lease_columns(leases), [x.attachment for x in leases]


def lease_columns(leases: Sequence[Lease]) -> tuple[list[UUID], list[int], list[UUID]]:
    """Job ids, attempts and session ids, as statements take them that act under leases."""
    return [x.job_id for x in leases], [x.attempt for x in leases], [x.session_id for x in leases]
