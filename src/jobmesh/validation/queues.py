"""Queues: their names, their settings, and which of them an update means."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from jobmesh.v1.queue_pb2 import Queue
from jobmesh.validation.job_spec import NOT_SUPPORTED
from jobmesh.validation.retry_policy import check_retry_policy
from jobmesh.validation.text import check_name
from jobmesh.validation.times import TIMEOUT, check_duration
from jobmesh.validation.violations import Violations

MAX_COUNT = 2**31 - 1

SETTABLE = (
    "max_running",
    "max_depth",
    "default_retry_policy",
    "default_timeout",
    "dispatch_paused",
    "intake_paused",
)
PLANNED = frozenset({"rate_limit", "key_limits", "retention", "shard_count"})
OUTPUT_ONLY = frozenset({"depth", "oldest_queued_time", "create_time", "pause_note"})
# Part of every update: which queue, and which version of it.
_IDENTITY = frozenset({"name", "etag"})


def check_queue_name(name: str, path: str, found: Violations) -> None:
    """A name; required."""
    check_name(name, path, found)


def update_paths(queue: Queue, paths: Sequence[str], path: str, found: Violations) -> list[str]:
    """The settings that an update changes: those of the mask, or all that are set.

    `*` means all settings. Unknown, planned and output-only ones are violations.
    """
    if list(paths) == ["*"]:
        return list(SETTABLE)
    if not paths:
        return [f.name for f, _ in queue.ListFields() if f.name in SETTABLE]
    for index, name in enumerate(paths):
        if problem := _path_problem(name):
            found.add(f"{path}.paths[{index}]", f"{name[:50]!a} {problem}")
    return [name for name in dict.fromkeys(paths) if name in SETTABLE]


def _path_problem(name: str) -> str:
    if name in SETTABLE:
        return ""
    if name in PLANNED:
        return NOT_SUPPORTED
    if name in OUTPUT_ONLY:
        return "is output only"
    if name in _IDENTITY:
        return "cannot be changed"
    head, dot, _ = name.partition(".")
    if dot and head in SETTABLE:
        return f"is part of {head}, which is changed as a whole: name {head}"
    return f"is no setting of a queue; known are {', '.join(SETTABLE)}"


def check_queue_settings(
    queue: Queue, paths: Sequence[str], masked: bool, path: str, found: Violations
) -> None:
    """The values of the settings that change; without a mask, also that nothing else is set."""
    for field, value in queue.ListFields():
        name = field.name
        if name in paths:
            if check := _CHECKS.get(name):
                check(value, f"{path}.{name}", found)
        elif not masked and name not in _IDENTITY:
            found.add(f"{path}.{name}", "is output only" if name in OUTPUT_ONLY else NOT_SUPPORTED)


def _count(value: int, path: str, found: Violations) -> None:
    if not 0 <= value <= MAX_COUNT:
        found.add(path, f"is {value}; it must be 1 to {MAX_COUNT}, or 0 for no limit")


def _timeout(value: Any, path: str, found: Violations) -> None:
    check_duration(value, path, found, TIMEOUT)


_CHECKS: dict[str, Callable[[Any, str, Violations], None]] = {
    "max_running": _count,
    "max_depth": _count,
    "default_retry_policy": check_retry_policy,
    "default_timeout": _timeout,
}
