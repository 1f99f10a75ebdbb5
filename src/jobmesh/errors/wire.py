"""Errors to and from ``google.rpc.Status``: the one place that knows how they travel.

A status holds exactly one ``ErrorInfo`` and, where they say something, a ``BadRequest``, a
``RetryInfo`` and a ``ResourceInfo``. It is kept within 1 KiB, since it travels in HTTP/2 trailers,
which peers and proxies limit (8 KiB and less) by dropping the whole answer.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice
from typing import NamedTuple, TypeVar

import grpc
from google.protobuf.duration_pb2 import Duration
from google.protobuf.message import DecodeError, Message
from google.rpc import error_details_pb2, status_pb2

from jobmesh.errors import kinds
from jobmesh.errors.kinds import JobmeshError, Resource

D = TypeVar("D", bound=Message)

DOMAIN = "jobmesh"
DETAILS_KEY = "grpc-status-details-bin"
STATUS_LIMIT_BYTES = 1024

_CODES = {code.value[0]: code for code in grpc.StatusCode}
_ELLIPSIS = "..."


class _Size(NamedTuple):
    """How much of an error is told."""

    text: int  # bytes of each text
    violations: int
    metadata: int


# Tried in turn until the whole fits; the last one always does. A few violations that can be read
# say more than many stumps.
_SIZES = (_Size(256, 16, 16), _Size(128, 5, 12), _Size(96, 3, 6), _Size(32, 2, 4), _Size(16, 1, 3))


def to_status(error: JobmeshError) -> status_pb2.Status:
    """The error as a status of at most 1 KiB; long texts and the last violations are cut."""
    for size in _SIZES:
        status = _build(error, size)
        if status.ByteSize() <= STATUS_LIMIT_BYTES:
            break
    return status


def from_status(status: status_pb2.Status) -> JobmeshError:
    """The error that a status stands for; a status of another system becomes the nearest class."""
    info = _first(status, error_details_pb2.ErrorInfo)
    bad = _first(status, error_details_pb2.BadRequest)
    retry = _first(status, error_details_pb2.RetryInfo)
    resource = _first(status, error_details_pb2.ResourceInfo)
    code = _CODES.get(status.code, grpc.StatusCode.UNKNOWN)
    ours = info is not None and info.domain == DOMAIN
    reason = info.reason if info is not None and ours else code.name
    violations = [(v.field, v.description) for v in bad.field_violations] if bad else []
    about = Resource(resource.resource_type, resource.resource_name) if resource else None
    error = _class_of(reason, code, len(violations)).restore(
        {
            "message": status.message,
            "code": code,
            "reason": reason,
            "metadata": dict(info.metadata) if info else {},
            "violations": violations,
            "retry_after": retry.retry_delay.ToTimedelta().total_seconds() if retry else None,
            "resource": about,
        }
    )
    error.from_jobmesh = ours
    return error


def from_rpc_error(error: grpc.aio.AioRpcError) -> JobmeshError:
    """The error that a failed call stands for; a call that no jobmesh answered has no details."""
    trailers: Iterable[tuple[str, str | bytes]] = error.trailing_metadata() or ()  # type: ignore[assignment]
    packed = dict(trailers).get(DETAILS_KEY)
    if isinstance(packed, bytes):
        try:
            return from_status(status_pb2.Status.FromString(packed))
        except DecodeError:  # a peer's defect: fall back on what gRPC itself says
            pass
    code: grpc.StatusCode = error.code()
    return from_status(status_pb2.Status(code=code.value[0], message=error.details() or code.name))


def safe_text(text: str, limit: int) -> str:
    """The text as one line of printable ASCII of at most ``limit`` characters.

    gRPC percent-encodes other characters in ``grpc-message``, three to twelve bytes each, fails on
    lone surrogates, and some peers show the encoding; escapes are legible everywhere.
    """
    if not (text.isascii() and text.isprintable()):
        text = "".join(_escape(char) for char in text[: limit + 1])
    return text if len(text) <= limit else text[: limit - len(_ELLIPSIS)] + _ELLIPSIS


def _escape(char: str) -> str:
    if char.isascii() and char.isprintable():
        return char
    return " " if char.isspace() else ascii(char)[1:-1]


def _cut(text: str, limit: int) -> str:
    """For details, which are binary: any Unicode, of at most ``limit`` bytes."""
    data = text[: limit + 1].encode("utf-8", "replace")
    if len(data) <= limit:
        return data.decode()
    return data[: limit - len(_ELLIPSIS)].decode("utf-8", "ignore") + _ELLIPSIS


def _build(error: JobmeshError, size: _Size) -> status_pb2.Status:
    status = status_pb2.Status(
        code=error.code.value[0], message=safe_text(error.message, size.text)
    )
    for detail in _details(error, size):
        status.details.add().Pack(detail)
    return status


def _details(error: JobmeshError, size: _Size) -> Iterable[Message]:
    limit = size.text
    entries = islice(error.metadata.items(), size.metadata)
    yield error_details_pb2.ErrorInfo(
        reason=_cut(error.reason, 63),
        domain=DOMAIN,
        metadata={_cut(key, 32): _cut(value, limit) for key, value in entries},
    )
    bad = error_details_pb2.BadRequest()
    for field, description in error.violations[: size.violations]:
        bad.field_violations.add(field=_cut(field, limit), description=_cut(description, limit))
    if bad.field_violations:
        yield bad
    if error.retry_after is not None:
        delay = Duration()
        delay.FromMicroseconds(max(0, round(error.retry_after * 1_000_000)))
        yield error_details_pb2.RetryInfo(retry_delay=delay)
    if error.resource is not None:
        yield error_details_pb2.ResourceInfo(
            resource_type=_cut(error.resource.type, limit),
            resource_name=_cut(error.resource.name, limit),
        )


def _first(status: status_pb2.Status, kind: type[D]) -> D | None:
    """The first detail of that kind."""
    detail = kind()
    return detail if any(packed.Unpack(detail) for packed in status.details) else None


def _subclasses(cls: type[JobmeshError]) -> Iterable[type[JobmeshError]]:
    for sub in cls.__subclasses__():
        yield sub
        yield from _subclasses(sub)


_BY_REASON = {
    cls.default_reason: cls
    for cls in _subclasses(JobmeshError)
    if cls.__module__ == kinds.__name__ and cls is not kinds.InvalidFields
}
# What gRPC itself answers, or a proxy, without details.
_BY_CODE = {
    grpc.StatusCode.NOT_FOUND: kinds.NotFound,
    grpc.StatusCode.UNAVAILABLE: kinds.Unavailable,
    grpc.StatusCode.DEADLINE_EXCEEDED: kinds.DeadlineExceeded,
    grpc.StatusCode.UNAUTHENTICATED: kinds.Unauthenticated,
    grpc.StatusCode.PERMISSION_DENIED: kinds.NotAllowed,
    grpc.StatusCode.UNIMPLEMENTED: kinds.Unimplemented,
    grpc.StatusCode.INTERNAL: kinds.Internal,
}


def _class_of(reason: str, code: grpc.StatusCode, violations: int) -> type[JobmeshError]:
    found = _BY_REASON.get(reason)
    if found is kinds.InvalidField and violations > 1:
        return kinds.InvalidFields
    if found is not None and found.default_code is code:
        return found
    return _BY_CODE.get(code, JobmeshError)
