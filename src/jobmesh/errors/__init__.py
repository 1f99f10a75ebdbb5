"""The errors of jobmesh: one base class, a subclass for each case, one mapping to the wire.

A service raises a subclass and its interceptor sends it as a ``google.rpc.Status``; a client gets
the same subclass back from :func:`from_rpc_error`.
"""

from __future__ import annotations

from jobmesh.errors.kinds import (
    BackendUnavailable,
    DeadlineExceeded,
    Draining,
    EtagMismatch,
    Internal,
    InvalidField,
    InvalidFields,
    JobAlreadyActive,
    JobmeshError,
    LeadershipLost,
    LeaseLost,
    NotAllowed,
    NotFound,
    Overloaded,
    PayloadTooLarge,
    QueueFull,
    RateLimited,
    RequestIdReused,
    Resource,
    RevisionMismatch,
    ScheduleExists,
    SessionEnded,
    Unauthenticated,
    Unavailable,
    Unimplemented,
    WrongState,
)
from jobmesh.errors.wire import (
    DETAILS_KEY,
    DOMAIN,
    STATUS_LIMIT_BYTES,
    from_rpc_error,
    from_status,
    to_status,
)

__all__ = [
    "DETAILS_KEY",
    "DOMAIN",
    "STATUS_LIMIT_BYTES",
    "BackendUnavailable",
    "DeadlineExceeded",
    "Draining",
    "EtagMismatch",
    "Internal",
    "InvalidField",
    "InvalidFields",
    "JobAlreadyActive",
    "JobmeshError",
    "LeadershipLost",
    "LeaseLost",
    "NotAllowed",
    "NotFound",
    "Overloaded",
    "PayloadTooLarge",
    "QueueFull",
    "RateLimited",
    "RequestIdReused",
    "Resource",
    "RevisionMismatch",
    "ScheduleExists",
    "SessionEnded",
    "Unauthenticated",
    "Unavailable",
    "Unimplemented",
    "WrongState",
    "from_rpc_error",
    "from_status",
    "to_status",
]
