"""Every error that an RPC of jobmesh answers with, as a class with fields."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar, NamedTuple, Self

from grpc import StatusCode


class Resource(NamedTuple):
    """The thing an error is about, e.g. ``Resource("job", "0199…")``."""

    type: str
    name: str


class JobmeshError(Exception):
    """The base of all errors that cross an RPC.

    - ``code``: the gRPC status code.
    - ``reason``: an UPPER_SNAKE word that programs may switch on.
    - ``message``: for people; says what to do.
    - ``metadata``: what a program may want to know, as strings.
    - ``violations``: ``(field, description)`` of each bad field of the request.
    - ``retry_after``: seconds after which the call may be repeated, where waiting helps.
    - ``resource``: what is missing or in the wrong state.
    """

    default_code: ClassVar[StatusCode] = StatusCode.UNKNOWN
    default_reason: ClassVar[str] = ""
    # False for what a client made of a status that no jobmesh sent.
    from_jobmesh: bool = True

    def __init__(
        self,
        message: str,
        *,
        code: StatusCode | None = None,
        reason: str = "",
        metadata: Mapping[str, str] | None = None,
        violations: Sequence[tuple[str, str]] = (),
        retry_after: float | None = None,
        resource: Resource | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.code = code or self.default_code
        self.reason = reason or self.default_reason or self.code.name
        self.metadata: dict[str, str] = dict(metadata or {})
        self.violations: list[tuple[str, str]] = list(violations)
        self.retry_after = retry_after
        self.resource = resource

    @classmethod
    def restore(cls, state: Mapping[str, object]) -> Self:
        """An instance made from its fields, past the constructor of the subclass."""
        error = cls.__new__(cls)
        JobmeshError.__init__(error, **state)  # type: ignore[arg-type]
        return error

    def fields(self) -> dict[str, object]:
        """Everything :meth:`restore` needs."""
        return {
            "message": self.message,
            "code": self.code,
            "reason": self.reason,
            "metadata": self.metadata,
            "violations": self.violations,
            "retry_after": self.retry_after,
            "resource": self.resource,
        }

    def __reduce__(self) -> tuple[object, ...]:
        # Errors travel from a handler's process by pickle, which would call the subclass with
        # a message only.
        return type(self).restore, (self.fields(),)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.code.name}, {self.reason}, {self.message!r})"


class InvalidField(JobmeshError):
    """A field of the request is malformed. ``field`` is its path, e.g. ``job.labels["a"]``."""

    default_code = StatusCode.INVALID_ARGUMENT
    default_reason = "INVALID_FIELD"

    def __init__(self, field: str, why: str, hint: str = "") -> None:
        description = f"{why}; {hint}" if hint else why
        super().__init__(
            f"{field}: {description}", metadata={"field": field}, violations=[(field, description)]
        )

    @property
    def field(self) -> str:
        """The path of the first bad field."""
        return self.violations[0][0] if self.violations else self.metadata.get("field", "")


class InvalidFields(InvalidField):
    """Several fields are malformed: ``(field, description)`` of each."""

    def __init__(self, violations: Sequence[tuple[str, str]]) -> None:
        first = violations[0]
        more = f" (and {len(violations) - 1} more)" if len(violations) > 1 else ""
        JobmeshError.__init__(
            self,
            f"{first[0]}: {first[1]}{more}",
            metadata={"field": first[0]},
            violations=violations,
        )


class PayloadTooLarge(JobmeshError):
    """A payload, result or checkpoint is over its limit; sizes in bytes."""

    default_code = StatusCode.INVALID_ARGUMENT
    default_reason = "PAYLOAD_TOO_LARGE"

    def __init__(self, field: str, size: int, limit: int) -> None:
        why = f"is {size} bytes, the limit is {limit}; store the data elsewhere and pass a link"
        super().__init__(
            f"{field}: {why}",
            metadata={"field": field, "size": str(size), "limit": str(limit)},
            violations=[(field, why)],
        )


class NotFound(JobmeshError):
    """No such job, queue, schedule or other thing in this namespace."""

    default_code = StatusCode.NOT_FOUND
    default_reason = "NOT_FOUND"

    def __init__(self, kind: str, name: str) -> None:
        super().__init__(
            f"no such {kind}: {name}",
            reason=f"{kind.upper()}_NOT_FOUND",
            metadata={kind: name},
            resource=Resource(kind, name),
        )

    @classmethod
    def job(cls, job_id: str) -> NotFound:
        """JOB_NOT_FOUND."""
        return cls("job", job_id)

    @classmethod
    def queue(cls, name: str) -> NotFound:
        """QUEUE_NOT_FOUND."""
        return cls("queue", name)

    @classmethod
    def schedule(cls, schedule_id: str) -> NotFound:
        """SCHEDULE_NOT_FOUND."""
        return cls("schedule", schedule_id)


class RequestIdReused(JobmeshError):
    """The ``request_id`` belongs to a submission with other content."""

    default_code = StatusCode.ALREADY_EXISTS
    default_reason = "REQUEST_ID_REUSED"

    def __init__(self, request_id: str, job_id: str = "") -> None:
        metadata = {"request_id": request_id} | ({"job_id": job_id} if job_id else {})
        super().__init__(
            f"request_id {request_id} was used for a submission with other content; use a new one",
            metadata=metadata,
        )


class ScheduleExists(JobmeshError):
    """There is a schedule of that id with other content."""

    default_code = StatusCode.ALREADY_EXISTS
    default_reason = "SCHEDULE_EXISTS"

    def __init__(self, schedule_id: str) -> None:
        super().__init__(
            f"there is a schedule {schedule_id} with other content; update it or rename",
            metadata={"schedule": schedule_id},
            resource=Resource("schedule", schedule_id),
        )


class JobAlreadyActive(JobmeshError):
    """The ``unique_key`` is held by the active job ``job_id``."""

    default_code = StatusCode.ALREADY_EXISTS
    default_reason = "JOB_ALREADY_ACTIVE"

    def __init__(self, job_id: str, unique_key: str = "") -> None:
        key = f" {unique_key}" if unique_key else ""
        super().__init__(
            f"unique_key{key} is held by the active job {job_id}",
            metadata={"job_id": job_id},
            resource=Resource("job", job_id),
        )

    @property
    def job_id(self) -> str:
        """The job that holds the key."""
        return self.metadata.get("job_id", "")


class WrongState(JobmeshError):
    """The job's ``state`` does not allow the call."""

    default_code = StatusCode.FAILED_PRECONDITION
    default_reason = "WRONG_STATE"

    def __init__(self, state: str, message: str = "") -> None:
        super().__init__(message or f"not possible in state {state}", metadata={"state": state})

    @property
    def state(self) -> str:
        """The state that was met."""
        return self.metadata.get("state", "")


class RevisionMismatch(JobmeshError):
    """``expected_revision`` is not the job's revision."""

    default_code = StatusCode.ABORTED
    default_reason = "REVISION_MISMATCH"

    def __init__(self, expected: int, actual: int) -> None:
        super().__init__(
            f"the job is at revision {actual}, not {expected}; read it again and decide anew",
            metadata={"expected": str(expected), "actual": str(actual)},
        )


class EtagMismatch(JobmeshError):
    """The ``etag`` is not the current one."""

    default_code = StatusCode.ABORTED
    default_reason = "ETAG_MISMATCH"

    def __init__(self, expected: str, actual: str) -> None:
        super().__init__(
            f"the etag is {actual}, not {expected}; read it again and decide anew",
            metadata={"expected": expected, "actual": actual},
        )


class QueueFull(JobmeshError):
    """The queue holds ``max_depth`` jobs."""

    default_code = StatusCode.RESOURCE_EXHAUSTED
    default_reason = "QUEUE_FULL"

    def __init__(self, queue: str, max_depth: int, retry_after: float = 1.0) -> None:
        super().__init__(
            f"queue {queue} is full ({max_depth} jobs)",
            metadata={"queue": queue, "max_depth": str(max_depth)},
            retry_after=retry_after,
        )


class RateLimited(JobmeshError):
    """More calls or jobs a second than ``what`` allows."""

    default_code = StatusCode.RESOURCE_EXHAUSTED
    default_reason = "RATE_LIMITED"

    def __init__(self, what: str, retry_after: float = 1.0) -> None:
        super().__init__(
            f"the rate limit of {what} is reached", metadata={"what": what}, retry_after=retry_after
        )


class Unauthenticated(JobmeshError):
    """No credentials, or bad ones."""

    default_code = StatusCode.UNAUTHENTICATED
    default_reason = "UNAUTHENTICATED"


class NotAllowed(JobmeshError):
    """The credentials do not permit the call."""

    default_code = StatusCode.PERMISSION_DENIED
    default_reason = "NOT_ALLOWED"


class LeaseLost(JobmeshError):
    """A report for an attempt that no longer holds its job: the runner stops its handler."""

    default_code = StatusCode.FAILED_PRECONDITION
    default_reason = "LEASE_LOST"

    def __init__(self, job_id: str, attempt: int) -> None:
        super().__init__(
            f"attempt {attempt} no longer holds job {job_id}",
            metadata={"job_id": job_id, "attempt": str(attempt)},
        )


class SessionEnded(JobmeshError):
    """A runner's session was ended: it stops what it runs and begins a new one."""

    default_code = StatusCode.FAILED_PRECONDITION
    default_reason = "SESSION_ENDED"

    def __init__(self, session_id: str) -> None:
        super().__init__(f"the session {session_id} was ended", metadata={"session_id": session_id})


class LeadershipLost(JobmeshError):
    """An act for a leader whose epoch is over: it stands down."""

    default_code = StatusCode.FAILED_PRECONDITION
    default_reason = "LEADERSHIP_LOST"

    def __init__(self, epoch: int) -> None:
        super().__init__(f"epoch {epoch} is no longer the latest", metadata={"epoch": str(epoch)})


class Unavailable(JobmeshError):
    """The mesh cannot answer now; repeating the call is safe and helps."""

    default_code = StatusCode.UNAVAILABLE
    default_reason = "UNAVAILABLE"


class BackendUnavailable(Unavailable):
    """A dependency of the service is down: ``what`` names its kind, never its address."""

    default_reason = "BACKEND_UNAVAILABLE"

    def __init__(self, what: str, retry_after: float = 1.0) -> None:
        super().__init__(
            f"{what} is not available", metadata={"backend": what}, retry_after=retry_after
        )


class Overloaded(Unavailable):
    """A bounded queue inside the service is full; another replica may take the call."""

    default_reason = "OVERLOADED"

    def __init__(self, what: str, retry_after: float = 0.2) -> None:
        super().__init__(f"{what} is overloaded", metadata={"what": what}, retry_after=retry_after)


class Draining(Unavailable):
    """The replica is stopping; go on with another one."""

    default_reason = "DRAINING"

    def __init__(self, what: str = "this replica") -> None:
        super().__init__(f"{what} is stopping", metadata={"what": what})


class DeadlineExceeded(JobmeshError):
    """The call did not end by its deadline; whether it had an effect is unknown."""

    default_code = StatusCode.DEADLINE_EXCEEDED
    default_reason = "DEADLINE_EXCEEDED"


class Unimplemented(JobmeshError):
    """The server does not know the method or the option."""

    default_code = StatusCode.UNIMPLEMENTED
    default_reason = "UNIMPLEMENTED"


class Internal(JobmeshError):
    """A defect of jobmesh: the service's log has the cause under ``error_id``."""

    default_code = StatusCode.INTERNAL
    default_reason = "INTERNAL"

    def __init__(self, error_id: str) -> None:
        super().__init__(f"internal error {error_id}", metadata={"error_id": error_id})
