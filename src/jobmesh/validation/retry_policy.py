"""Retry policies."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from jobmesh.v1.job_pb2 import RetryPolicy
from jobmesh.validation.text import check_ids
from jobmesh.validation.times import INTERVAL, check_duration, nanoseconds
from jobmesh.validation.violations import Violations

MAX_ATTEMPTS = 1000
MAX_COEFFICIENT = 100.0
MAX_ERROR_TYPES = 50


def check_retry_policy(policy: RetryPolicy, path: str, found: Violations) -> None:
    """Each field that is set in its bounds; what is left out comes from the queue."""
    for field, value in policy.ListFields():
        _CHECKS[field.name](value, f"{path}.{field.name}", found)
    if policy.HasField("initial_interval") and policy.HasField("max_interval"):
        _check_order(policy, path, found)


def _check_order(policy: RetryPolicy, path: str, found: Violations) -> None:
    if nanoseconds(policy.max_interval) < nanoseconds(policy.initial_interval):
        found.add(f"{path}.max_interval", "must not be less than initial_interval")


def _max_attempts(value: int, path: str, found: Violations) -> None:
    if not 1 <= value <= MAX_ATTEMPTS:
        found.add(path, f"is {value}; it must be 1 to {MAX_ATTEMPTS}")


def _coefficient(value: float, path: str, found: Violations) -> None:
    if not 1 <= value <= MAX_COEFFICIENT:  # false for NaN, too
        found.add(path, f"is {value:g}; it must be 1 to {MAX_COEFFICIENT:g}")


def _jitter(value: float, path: str, found: Violations) -> None:
    if not 0 <= value <= 1:
        found.add(path, f"is {value:g}; it must be 0 to 1")


def _interval(value: Any, path: str, found: Violations) -> None:
    check_duration(value, path, found, INTERVAL)


def _error_types(value: Any, path: str, found: Violations) -> None:
    if len(value) > MAX_ERROR_TYPES:
        found.add(path, f"has {len(value)} entries, at most {MAX_ERROR_TYPES} are allowed")
    else:
        check_ids(value, path, found)


_CHECKS: dict[str, Callable[[Any, str, Violations], None]] = {
    "max_attempts": _max_attempts,
    "initial_interval": _interval,
    "backoff_coefficient": _coefficient,
    "max_interval": _interval,
    "jitter": _jitter,
    "non_retryable_error_types": _error_types,
}
