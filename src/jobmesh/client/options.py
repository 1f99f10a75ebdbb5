"""What a caller may set of a submission beside the handler's arguments."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from jobmesh.client.times import to_timestamp
from jobmesh.durations import DurationLike, nanoseconds
from jobmesh.retry import Retry
from jobmesh.v1 import job_pb2

PRIORITIES = range(10)


@dataclass(frozen=True, kw_only=True, slots=True)
class SubmitOptions:
    """Options of a submission. What is left out is the task's, else the queue's, else the mesh's.

    Args:
        queue: its name.
        priority: 0–9, 9 first (mesh: 4).
        delay: becomes ready so long after the submission: ``"5m"``, seconds, or a timedelta.
        run_at: becomes ready at this time, instead of ``delay``; an aware datetime.
        timeout: the longest that one attempt may run.
        heartbeat_timeout: the longest silence of a handler that must report.
        deadline: when the whole job must have ended; an aware datetime.
        expires_after: cancel it if it has not started so long after it became ready.
        retry: how failures are retried.
        labels: names and values to find the job by; at most 32.
        request_id: makes submissions idempotent across processes: the same id is the same job. One
            is made up for each submission if it is left out.
        parent_job_id: the job that this one belongs to.

    Raises:
        ValueError: an option is malformed, or two exclude each other.
    """

    queue: str | None = None
    priority: int | None = None
    delay: DurationLike | None = None
    run_at: datetime | None = None
    timeout: DurationLike | None = None
    heartbeat_timeout: DurationLike | None = None
    deadline: datetime | None = None
    expires_after: DurationLike | None = None
    retry: Retry | None = None
    labels: Mapping[str, str] = field(default_factory=dict)
    request_id: str | None = None
    parent_job_id: str | None = None

    def __post_init__(self) -> None:
        if self.delay is not None and self.run_at is not None:
            raise ValueError("give either delay or run_at, not both")
        if self.priority is not None and self.priority not in PRIORITIES:
            raise ValueError(f"priority: must be 0 to 9, not {self.priority!r}")

    def merged(self, **changes: object) -> SubmitOptions:
        """These options with some replaced; labels are added to those there are."""
        known = [option.name for option in dataclasses.fields(self)]
        if unknown := [name for name in changes if name not in known]:
            raise TypeError(f"there is no option {unknown[0]!r}; there are {', '.join(known)}")
        if changes.get("labels"):
            changes["labels"] = {**self.labels, **changes["labels"]}  # type: ignore[dict-item]
        # The newer way to say when wins over the older one.
        if "delay" in changes and "run_at" not in changes:
            changes["run_at"] = None
        elif "run_at" in changes and "delay" not in changes:
            changes["delay"] = None
        return dataclasses.replace(self, **changes)  # type: ignore[arg-type]

    def fill(self, spec: job_pb2.JobSpec) -> None:
        """Set in ``spec`` what is set here."""
        if self.queue is not None:
            spec.queue = self.queue
        if self.priority is not None:
            spec.priority = self.priority
        if self.retry is not None:
            spec.retry_policy.CopyFrom(self.retry.to_proto())
        for name in ("timeout", "heartbeat_timeout", "expires_after"):
            if (length := getattr(self, name)) is not None:
                getattr(spec, name).FromNanoseconds(nanoseconds(length, name))
        if self.deadline is not None:
            spec.deadline.CopyFrom(to_timestamp(self.deadline, "deadline"))
        if self.delay is not None:
            spec.delay.FromNanoseconds(nanoseconds(self.delay, "delay"))
        if self.run_at is not None:
            spec.run_at.CopyFrom(to_timestamp(self.run_at, "run_at"))
        if self.parent_job_id is not None:
            spec.parent_job_id = self.parent_job_id
        spec.labels.update(self.labels)
