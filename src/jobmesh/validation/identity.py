"""Ids of jobs in requests."""

from __future__ import annotations

from jobmesh.errors import InvalidField
from jobmesh.ids import parse_job_id
from jobmesh.validation.violations import Violations


def check_job_id(text: str, path: str, found: Violations) -> str:
    """A UUID, returned in its canonical form."""
    try:
        return parse_job_id(text, path)
    except InvalidField as error:
        found.take(error)
        return text


def check_uuid(text: str, path: str, found: Violations) -> None:
    """A UUID in any case of letters."""
    check_job_id(text, path, found)
