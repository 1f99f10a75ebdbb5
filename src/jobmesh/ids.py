"""Identities of jobs, operations and processes: UUIDs as text."""

from __future__ import annotations

import re
from uuid import UUID

import uuid_utils

from jobmesh.errors import InvalidField

_CANONICAL = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")


def new_id() -> str:
    """A new UUIDv7. An identity only: nothing may be concluded from its clock."""
    return str(uuid_utils.uuid7())


def parse_job_id(text: str, field: str = "job_id") -> str:
    """The id in its canonical form, 36 characters in lower case.

    :raises InvalidField: it is empty or no UUID; braces, a URN or digits without hyphens are
        refused, since one job would have several names.
    """
    if _CANONICAL.fullmatch(text):
        return text
    lowered = text.lower()
    if _CANONICAL.fullmatch(lowered):
        return lowered
    why = "must be a UUID like 0199c0de-0000-7000-8000-000000000000" if text else "is required"
    raise InvalidField(field, why)


def id_bytes(job_id: str) -> bytes:
    """The 16 bytes of a canonical id."""
    return bytes.fromhex(job_id.replace("-", ""))


def id_text(raw: bytes) -> str:
    """The canonical id of 16 bytes."""
    return str(UUID(bytes=raw))


def bucket_of(job_id: str) -> int:
    """The bucket, 0–255, under which events of the job travel: its last byte."""
    return int(job_id[-2:], 16)
