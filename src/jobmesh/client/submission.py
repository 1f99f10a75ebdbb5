"""A job that is ready to be sent: checked, encoded, and with a request id of its own."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from jobmesh import codec
from jobmesh.client.options import SubmitOptions
from jobmesh.errors import PayloadTooLarge
from jobmesh.payload import MAX_LIMIT_BYTES
from jobmesh.v1 import job_pb2, job_service_pb2

if TYPE_CHECKING:
    from jobmesh.task import Task


@dataclass(frozen=True, slots=True)
class Submission:
    """One job to submit. Sent again, it is the same job: its ``request_id`` says so."""

    request: job_service_pb2.SubmitJobRequest
    size: int

    @property
    def request_id(self) -> str:
        """What makes it idempotent, unique in the namespace."""
        return self.request.request_id


def prepare(
    task: Task[..., Any] | str, arguments: Mapping[str, Any], options: SubmitOptions
) -> Submission:
    """The submission of a task, whose signature is checked, or of a type known by name only.

    Raises:
        InvalidArguments: they do not fit the task's handler.
        NotSerializable: one has no JSON form.
        PayloadTooLarge: they are longer than any mesh takes.
        TypeError: ``task`` is neither a task nor a name.
    """
    spec = _named(task, arguments) if isinstance(task, str) else _known(task, arguments)
    _require_sendable(spec)
    options.fill(spec)
    request = job_service_pb2.SubmitJobRequest(
        job=spec, request_id=options.request_id or str(uuid.uuid4())
    )
    return Submission(request, request.ByteSize())


def _require_sendable(spec: job_pb2.JobSpec) -> None:
    # No mesh takes more; what this one takes, its gateway knows.
    size = len(spec.payload.data)
    if size > MAX_LIMIT_BYTES:
        raise PayloadTooLarge("job.payload", size, MAX_LIMIT_BYTES)


def _named(type_name: str, arguments: Mapping[str, Any]) -> job_pb2.JobSpec:
    data = codec.encode(dict(arguments), "arguments")
    return job_pb2.JobSpec(
        type=type_name, payload=job_pb2.Payload(data=data, content_type=codec.CONTENT_TYPE)
    )


def _known(task: Task[..., Any], arguments: Mapping[str, Any]) -> job_pb2.JobSpec:
    from jobmesh.task import Task

    if not isinstance(task, Task):
        raise TypeError(
            f"{task!r} is no task: submit what @app.task made of a function, or a type's name"
        )
    return task.spec(arguments)
