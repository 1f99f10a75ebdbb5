"""Filters over jobs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from jobmesh.v1.job_pb2 import JobFilter, JobState
from jobmesh.validation.enums import check_enums
from jobmesh.validation.identity import check_uuid
from jobmesh.validation.text import check_id, check_labels, check_names
from jobmesh.validation.times import check_timestamp
from jobmesh.validation.violations import Violations

MAX_NAMES = 100


def check_filter(wanted: JobFilter, path: str, found: Violations) -> None:
    """Each field that is set; an empty filter means all jobs."""
    for field, value in wanted.ListFields():
        _CHECKS[field.name](value, f"{path}.{field.name}", found)


def _names(value: Any, path: str, found: Violations) -> None:
    if len(value) > MAX_NAMES:
        found.add(path, f"has {len(value)} entries, at most {MAX_NAMES} are allowed")
    else:
        check_names(value, path, found)


def _states(value: Any, path: str, found: Violations) -> None:
    if len(value) > MAX_NAMES:
        found.add(path, f"has {len(value)} entries, at most {MAX_NAMES} are allowed")
    else:
        check_enums(value, path, found, JobState.DESCRIPTOR)


_CHECKS: dict[str, Callable[[Any, str, Violations], None]] = {
    "queues": _names,
    "types": _names,
    "states": _states,
    "labels": check_labels,
    "runner_id": check_id,
    "schedule_id": check_id,
    "shard_key": check_id,
    "parent_job_id": check_uuid,
    "create_time_from": check_timestamp,
    "create_time_to": check_timestamp,
    "end_time_from": check_timestamp,
    "end_time_to": check_timestamp,
    "error_type": check_id,
}
