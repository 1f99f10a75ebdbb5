"""What a caller may ask for in a job. The payload is checked where it is normalised."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from jobmesh.v1.job_pb2 import JobSpec, RestartPolicy
from jobmesh.validation.enums import check_enum
from jobmesh.validation.identity import check_uuid
from jobmesh.validation.retry_policy import check_retry_policy
from jobmesh.validation.text import check_labels, check_name
from jobmesh.validation.times import DELAY, LONG_TIMEOUT, TIMEOUT, check_duration, check_timestamp
from jobmesh.validation.violations import Violations

NOT_SUPPORTED = "is not supported yet"
MAX_PRIORITY = 9

Check = Callable[[Any, str, Violations], None]


def check_job_spec(job: JobSpec, path: str, found: Violations) -> None:
    """All fields but the payload. Only what is set costs anything."""
    for field, value in job.ListFields():
        check = _CHECKS.get(field.number)
        if check is not None:
            check(value, f"{path}.{field.name}", found)
    if not job.type:
        found.add(f"{path}.type", "is required: the name of the handler")


def _priority(value: int, path: str, found: Violations) -> None:
    if not 0 <= value <= MAX_PRIORITY:
        found.add(path, f"is {value}; it must be 0 to {MAX_PRIORITY}")


def _timeout(value: Any, path: str, found: Violations) -> None:
    check_duration(value, path, found, TIMEOUT)


def _long_timeout(value: Any, path: str, found: Violations) -> None:
    check_duration(value, path, found, LONG_TIMEOUT)


def _delay(value: Any, path: str, found: Violations) -> None:
    check_duration(value, path, found, DELAY)


_UNBUILT_RESTARTS: dict[int, str] = {
    RestartPolicy.Value(name): name for name in ("RESTART_POLICY_ALWAYS", "RESTART_POLICY_NEVER")
}


def _restart(value: int, path: str, found: Violations) -> None:
    if value in _UNBUILT_RESTARTS:
        found.add(path, f"{_UNBUILT_RESTARTS[value]} {NOT_SUPPORTED}")
    else:
        check_enum(value, path, found, RestartPolicy.DESCRIPTOR)


def _not_supported(value: Any, path: str, found: Violations) -> None:
    found.add(path, NOT_SUPPORTED)


_BY_NAME: dict[str, Check] = {
    "queue": check_name,
    "type": check_name,
    "priority": _priority,
    "retry_policy": check_retry_policy,
    "timeout": _timeout,
    "heartbeat_timeout": _long_timeout,
    "deadline": check_timestamp,
    "run_at": check_timestamp,
    "delay": _delay,
    "expires_after": _long_timeout,
    "shard_key": _not_supported,
    "concurrency_key": _not_supported,
    "fairness_key": _not_supported,
    "unique_key": _not_supported,
    "restart": _restart,
    "labels": check_labels,
    "parent_job_id": check_uuid,
}
_CHECKS = {JobSpec.DESCRIPTOR.fields_by_name[name].number: c for name, c in _BY_NAME.items()}
