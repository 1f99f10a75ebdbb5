"""A submission as it is stored: a gateway's message turned into columns once."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, NamedTuple
from uuid import UUID

import msgspec

from jobmesh.v1.job_pb2 import JobSpec

if TYPE_CHECKING:
    from google.protobuf.timestamp_pb2 import Timestamp

    from jobmesh.v1.dispatch_service_pb2 import JobSubmission

# asyncpg takes the very first and last datetime for infinite ones, which have no date to read back.
_FIRST = datetime.min.replace(tzinfo=UTC, microsecond=1)
_LAST = datetime.max.replace(tzinfo=UTC, microsecond=999_998)


class Submission(NamedTuple):
    """One job to store. `spec` has lost its payload, which is stored beside it."""

    job_id: UUID
    namespace: str
    spec: JobSpec
    payload: bytes
    payload_type: str
    request_id: str
    digest: bytes
    traceparent: str
    schedule_id: str = ""

    @property
    def is_timed(self) -> bool:
        """Whether it may have to wait for its time."""
        return self.spec.WhichOneof("start") is not None

    def columns(self, operation_id: UUID) -> tuple[object, ...]:
        """The values of `store_jobs.sql`, in its order."""
        spec = self.spec
        return (
            self.job_id,
            self.namespace,
            spec.queue,
            spec.type,
            spec.priority,
            spec.SerializeToString(),
            self.payload,
            self.payload_type,
            msgspec.json.encode(dict(spec.labels)).decode() if spec.labels else "{}",
            self.traceparent,
            UUID(spec.parent_job_id) if spec.parent_job_id else None,
            to_datetime(spec.run_at) if spec.HasField("run_at") else None,
            spec.delay.seconds + spec.delay.nanos / 1e9 if spec.HasField("delay") else 0.0,
            to_datetime(spec.deadline) if spec.HasField("deadline") else None,
            expiry_seconds(spec),
            operation_id,
            self.request_id,
            self.digest,
            self.schedule_id,
        )


def read_submission(message: JobSubmission) -> Submission:
    """Take a submission out of a gateway's message, which is consumed."""
    spec = message.job
    payload, payload_type = spec.payload.data, spec.payload.content_type
    spec.ClearField("payload")
    return Submission(
        job_id=UUID(message.job_id),
        namespace=message.namespace,
        spec=spec,
        payload=payload if payload_type else payload or b"{}",
        payload_type=payload_type or "application/json",
        request_id=message.request_id,
        digest=message.digest,
        traceparent=message.traceparent,
    )


def expiry_seconds(spec: JobSpec) -> float | None:
    """How long after it became ready the job expires unless it has started; None for never."""
    if not spec.HasField("expires_after"):
        return None
    return spec.expires_after.seconds + spec.expires_after.nanos / 1e9


def to_datetime(time: Timestamp) -> datetime:
    """An aware datetime, to the microsecond."""
    return min(max(time.ToDatetime(tzinfo=UTC), _FIRST), _LAST)
