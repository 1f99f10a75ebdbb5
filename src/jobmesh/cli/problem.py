"""Errors in words: what, which field, what to do about it. One or two lines, never a traceback."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from jobmesh.errors import JobmeshError

START_ONE = "is the mesh running? start one with `jobmesh dev`, or name a gateway by --address"


def explain(error: Exception) -> str | None:
    """What to tell the user, or nothing if the error is a defect of ours."""
    # Without gRPC loaded there was no call that could have failed.
    errors = sys.modules.get("jobmesh.errors")
    if errors is None or not isinstance(error, errors.JobmeshError):
        return None
    return "\n".join(f"jobmesh: {line}" for line in _lines(error))


def _lines(error: JobmeshError) -> list[str]:
    from jobmesh import errors

    if error.violations:
        return [f"{field}: {description}" for field, description in error.violations]
    lines = [error.message]
    if isinstance(error, errors.Unavailable) and error.message.startswith("cannot reach"):
        lines.append(START_ONE)
    elif isinstance(error, errors.Unauthenticated):
        lines.append("give a token by --token-file")
    elif isinstance(error, errors.Unimplemented):
        lines.append("the mesh is of a version that cannot do this yet")
    elif error.retry_after:
        lines.append(f"try again in {error.retry_after:g} s")
    return lines
