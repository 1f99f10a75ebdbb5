"""Orders to fire, and firings, between the wire, the store and the decisions."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, NamedTuple
from uuid import UUID

from jobmesh.schedules.check import FIRE_TIME_LABEL
from jobmesh.schedules.overlap import Overlap
from jobmesh.v1.dispatch_service_pb2 import FiringOrder
from jobmesh.v1.job_pb2 import JobSpec
from jobmesh.v1.schedule_pb2 import Firing, FiringKind, FiringOutcome, OverlapPolicy
from jobmesh_dispatcher.submission import Submission

if TYPE_CHECKING:
    from asyncpg import Record

ON_REQUEST = frozenset({"TRIGGERED", "BACKFILLED"})


class Order(NamedTuple):
    """One time of a schedule to be fired; ``missed`` times of which nothing is submitted, if any.

    ``revision`` 0 stands for any; ``overlap`` None for the schedule's own policy.
    """

    uid: UUID
    revision: int
    fire_time: datetime
    kind: str
    overlap: Overlap | None
    job_id: UUID
    missed: int = 0
    last_missed: datetime | None = None

    @property
    def key(self) -> tuple[UUID, datetime]:
        """What there is one firing of."""
        return self.uid, self.fire_time


class Template(NamedTuple):
    """What a schedule submits, as it was read under a revision."""

    namespace: str
    schedule_id: str
    revision: int
    job: JobSpec

    @classmethod
    def from_row(cls, row: Record) -> Template:
        """Of `schedules_to_fire.sql`."""
        job = JobSpec.FromString(row["job"])
        return cls(row["namespace"], row["schedule_id"], row["revision"], job)

    def submission(self, job_id: UUID, fire_time: datetime) -> Submission:
        """The job of a firing, which learns its time from a label."""
        spec = JobSpec()
        spec.CopyFrom(self.job)
        payload = spec.payload.data or b"{}"
        payload_type = spec.payload.content_type or "application/json"
        spec.ClearField("payload")
        spec.labels[FIRE_TIME_LABEL] = label_time(fire_time)
        return Submission(
            job_id,
            self.namespace,
            spec,
            payload,
            payload_type,
            request_id="",
            digest=b"",
            traceparent="",
            schedule_id=self.schedule_id,
        )


def label_time(time: datetime) -> str:
    """As in `2026-03-29T01:00:00Z`."""
    return time.astimezone(UTC).isoformat().replace("+00:00", "Z")


def read_orders(messages: Sequence[FiringOrder]) -> list[Order]:
    """The orders of a request."""
    return [_read(message) for message in messages]


def _read(message: FiringOrder) -> Order:
    missed = message.missed
    return Order(
        uid=UUID(message.schedule_uid),
        revision=message.revision,
        fire_time=message.fire_time.ToDatetime(tzinfo=UTC),
        kind=FiringKind.Name(message.kind).removeprefix("FIRING_KIND_"),
        overlap=read_overlap(OverlapPolicy.Name(message.overlap_policy)),
        job_id=UUID(message.job_id),
        missed=missed,
        last_missed=message.last_missed_time.ToDatetime(tzinfo=UTC) if missed else None,
    )


def read_overlap(name: str) -> Overlap | None:
    """The policy of that name, with or without its prefix; None if it is unspecified."""
    short = name.removeprefix("OVERLAP_POLICY_").lower()
    return None if short == "unspecified" else Overlap(short)


def firing_message(row: Record, schedule_id: str) -> Firing:
    """A row of `firings` as callers see it."""
    firing = Firing(
        schedule_id=schedule_id,
        kind=FiringKind.Value(f"FIRING_KIND_{row['kind']}"),
        outcome=FiringOutcome.Value(f"FIRING_OUTCOME_{row['outcome']}"),
        job_id=str(row["job_id"]) if row["job_id"] else "",
        detail=row["detail"],
        count=row["count"],
    )
    firing.fire_time.FromDatetime(row["fire_time"])
    firing.record_time.FromDatetime(row["record_time"])
    if row["last_fire_time"] is not None:
        firing.last_fire_time.FromDatetime(row["last_fire_time"])
    return firing
