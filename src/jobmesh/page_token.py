"""Page tokens: opaque to callers, refused unless they belong to the list that they are used for.

A token holds where the last page ended and a checksum over that and over what was listed (its
scope), so that a damaged token and one from another filter or order are told apart from a good one.
It is no secret and no proof of anything: it gives nobody access.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
from dataclasses import dataclass
from datetime import datetime

from jobmesh.errors import InvalidField
from jobmesh.ids import id_bytes, id_text
from jobmesh.v1.job_service_pb2 import JobOrder, ListJobsRequest
from jobmesh.v1.schedule_service_pb2 import ListFiringsRequest, ListSchedulesRequest

FIELD = "page_token"

_VERSION = b"\x01"
_CHECKSUM_BYTES = 8
_TIME_BYTES = 8
_JOB_BYTES = _TIME_BYTES + 16
_LONGEST = 1200  # characters; the longest id of a schedule, 200 of 4 bytes each, makes less


@dataclass(frozen=True, slots=True)
class JobPosition:
    """The last job of a page: its time of creation, in µs since 1970, and its id."""

    create_time_us: int
    job_id: str


def job_token(namespace: str, request: ListJobsRequest, position: JobPosition) -> str:
    """The token for the page after ``position`` in the list that the request describes."""
    raw = position.create_time_us.to_bytes(_TIME_BYTES, "big", signed=True)
    return _encode(raw + id_bytes(position.job_id), _job_scope(namespace, request))


def parse_job_token(namespace: str, request: ListJobsRequest) -> JobPosition | None:
    """Where the request's page begins; nothing for the first one.

    :raises InvalidField: the token is malformed, or from another filter, order or namespace.
    """
    if not request.page_token:
        return None
    raw = _decode(request.page_token, _job_scope(namespace, request))
    if len(raw) != _JOB_BYTES:
        raise _refused()
    micros = int.from_bytes(raw[:_TIME_BYTES], "big", signed=True)
    return JobPosition(micros, id_text(raw[_TIME_BYTES:]))


def queue_token(namespace: str, last_name: str) -> str:
    """The token for the page of queues after the one of that name."""
    return _encode(last_name.encode(), _queue_scope(namespace))


def parse_queue_token(namespace: str, token: str) -> str:
    """The name of the queue that the page comes after; empty for the first page.

    :raises InvalidField: the token is malformed, or from another list.
    """
    return _decode(token, _queue_scope(namespace)).decode() if token else ""


def schedule_token(namespace: str, request: ListSchedulesRequest, last_id: str) -> str:
    """The token for the page of schedules after the one of that id."""
    return _encode(last_id.encode(), _schedule_scope(namespace, request))


def parse_schedule_token(namespace: str, request: ListSchedulesRequest) -> str:
    """The id of the schedule that the page comes after; empty for the first page.

    :raises InvalidField: the token is malformed, or from another list.
    """
    token = request.page_token
    return _decode(token, _schedule_scope(namespace, request)).decode() if token else ""


def firing_token(namespace: str, request: ListFiringsRequest, last_time: datetime) -> str:
    """The token for the page of firings before that time."""
    return _encode(last_time.isoformat().encode(), _firing_scope(namespace, request))


def parse_firing_token(namespace: str, request: ListFiringsRequest) -> datetime | None:
    """The time that the page comes before; nothing for the first one.

    :raises InvalidField: the token is malformed, or from another list.
    """
    if not request.page_token:
        return None
    return datetime.fromisoformat(
        _decode(request.page_token, _firing_scope(namespace, request)).decode()
    )


def _schedule_scope(namespace: str, request: ListSchedulesRequest) -> bytes:
    return f"schedules\0{namespace}\0{request.owner}".encode()


def _firing_scope(namespace: str, request: ListFiringsRequest) -> bytes:
    return f"firings\0{namespace}\0{request.schedule_id}".encode()


def _job_scope(namespace: str, request: ListJobsRequest) -> bytes:
    oldest_first = request.order == JobOrder.JOB_ORDER_OLDEST_FIRST
    head = f"jobs\0{namespace}\0{'oldest' if oldest_first else 'newest'}\0".encode()
    return head + request.filter.SerializeToString(deterministic=True)


def _queue_scope(namespace: str) -> bytes:
    return f"queues\0{namespace}".encode()


def _encode(position: bytes, scope: bytes) -> str:
    token = _VERSION + _checksum(position, scope) + position
    return base64.urlsafe_b64encode(token).rstrip(b"=").decode()


def _decode(token: str, scope: bytes) -> bytes:
    if len(token) > _LONGEST or not token.isascii():
        raise _refused()
    try:
        # Without the padding that it was stripped of, and nothing but its alphabet.
        raw = base64.b64decode(token + "=" * (-len(token) % 4), b"-_", validate=True)
    except (binascii.Error, ValueError):
        raise _refused() from None
    if base64.urlsafe_b64encode(raw).rstrip(b"=").decode() != token:
        raise _refused()  # the same bytes in another spelling, which we do not write
    version, checksum = raw[:1], raw[1 : 1 + _CHECKSUM_BYTES]
    position = raw[1 + _CHECKSUM_BYTES :]
    if version != _VERSION or checksum != _checksum(position, scope):
        raise _refused()
    return position


def _checksum(position: bytes, scope: bytes) -> bytes:
    state = hashlib.blake2b(digest_size=_CHECKSUM_BYTES)
    state.update(len(position).to_bytes(4, "big") + position)
    state.update(scope)
    return state.digest()


def _refused() -> InvalidField:
    return InvalidField(
        FIELD,
        "is damaged, or of a list with another filter or order",
        "begin again without a token",
    )
