"""What clients did, what became of it, and what a handler did: the records that are checked.

Times are seconds since the epoch. Those of operations and runs are this machine's; those of jobs
are the database's, and are only ever compared with each other.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from enum import StrEnum

import grpc

from jobmesh.errors import JobmeshError


class Outcome(StrEnum):
    """What a caller knows of an operation."""

    OK = "ok"  # it was carried out
    FAILED = "failed"  # it was refused: nothing was done
    UNKNOWN = "unknown"  # it may have been carried out


# Whatever else a call ends with is a definite refusal.
INDEFINITE = frozenset(
    {
        grpc.StatusCode.UNAVAILABLE,
        grpc.StatusCode.DEADLINE_EXCEEDED,
        grpc.StatusCode.CANCELLED,
        grpc.StatusCode.INTERNAL,
        grpc.StatusCode.UNKNOWN,
    }
)


@dataclass(slots=True)
class Operation:
    """One call of a client. `seen` are the (revision, state) that a watch was told."""

    number: int
    kind: str
    began: float
    ended: float = 0.0
    outcome: Outcome = Outcome.UNKNOWN
    code: str = ""
    error: str = ""
    request_ids: tuple[str, ...] = ()
    job_ids: tuple[str, ...] = ()
    seen: list[tuple[int, str]] = field(default_factory=list)

    def __str__(self) -> str:
        took = f"{self.ended - self.began:.2f} s" if self.ended else "not ended"
        told = f" {self.code} {self.error}" if self.error else ""
        about = f", of {', '.join(self.job_ids[:3])}" if self.error and self.job_ids else ""
        seen = f", saw {self.seen}" if self.seen else ""
        name = f"{clock(self.began)} {self.kind} #{self.number}"
        return f"{name}: {self.outcome}, {took}{told}{about}{seen}"


@dataclass(slots=True)
class History:
    """All operations of a run, in the order in which they began."""

    operations: list[Operation] = field(default_factory=list)

    @asynccontextmanager
    async def operation(self, kind: str, *job_ids: str) -> AsyncIterator[Operation]:
        """Record what happens inside, to these jobs if they are known before it.

        An error that the mesh answers with does not get out.
        """
        operation = Operation(len(self.operations), kind, time.time(), job_ids=job_ids)
        self.operations.append(operation)
        try:
            yield operation
            operation.outcome = Outcome.OK
        except JobmeshError as error:
            indefinite = error.code in INDEFINITE
            operation.outcome = Outcome.UNKNOWN if indefinite else Outcome.FAILED
            operation.code, operation.error = error.code.name, f"{error.reason}: {error.message}"
        finally:
            operation.ended = time.time()

    def acknowledged(self) -> set[str]:
        """The jobs whose submission was answered."""
        return {
            job_id
            for operation in self.operations
            if operation.request_ids and operation.outcome is Outcome.OK
            for job_id in operation.job_ids
        }

    def counts(self) -> Counter[tuple[str, str]]:
        """Operations by kind and outcome."""
        return Counter((each.kind, each.outcome.value) for each in self.operations)


@dataclass(frozen=True, slots=True)
class Change:
    """One committed change of a job's state."""

    revision: int
    state: str
    reason: str
    time: float
    attempt: int


@dataclass(frozen=True, slots=True)
class Attempt:
    """One attempt that ended, as it was recorded."""

    attempt: int
    outcome: str
    start: float | None
    end: float
    runner: str = ""


@dataclass(frozen=True, slots=True)
class Job:
    """A job as the database has it in the end."""

    id: str
    queue: str
    type: str
    state: str
    reason: str
    revision: int
    attempt: int
    failures: int
    crashes: int
    slot: bool
    changes: tuple[Change, ...]
    attempts: tuple[Attempt, ...]
    result: object = None
    labels: dict[str, str] = field(default_factory=dict)

    @property
    def was_retried(self) -> bool:
        """Whether a person had it run again after its end."""
        return any(change.reason == "RETRIED" for change in self.changes)


@dataclass(slots=True)
class Run:
    """One run of a handler, as it wrote it down itself.

    `end` is None if it did not come to it; `outcome` says how it ended. `restored` is the step at
    which it went on, `acknowledged` the last one whose checkpoint was answered.
    """

    job_id: str
    attempt: int
    process: int
    start: float
    end: float | None = None
    outcome: str = ""
    restored: int = 0
    acknowledged: int = 0


def clock(moment: float) -> str:
    """Time of day with milliseconds, UTC."""
    whole = time.strftime("%H:%M:%S", time.gmtime(moment))
    return f"{whole}.{int(moment * 1000) % 1000:03d}"
