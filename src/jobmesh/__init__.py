"""Durable background jobs as a mesh of small asyncio gRPC services.

What is named here is loaded when it is first used, so that importing jobmesh costs little.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from jobmesh.app import App
    from jobmesh.arguments import BadSignature, InvalidArguments
    from jobmesh.client import (
        Client,
        JobFailed,
        JobHandle,
        JobInfo,
        JobNotSucceeded,
        JobWasCancelled,
        connect,
    )
    from jobmesh.codec import NotSerializable
    from jobmesh.context import JobContext, SyncJobContext
    from jobmesh.durations import InvalidDuration
    from jobmesh.errors import JobmeshError, LeaseLost, PayloadTooLarge
    from jobmesh.outcomes import (
        JobCancelled,
        PermanentError,
        RetryLater,
        Snooze,
        TooManySteps,
    )
    from jobmesh.retry import InvalidRetry, Retry
    from jobmesh.task import InvalidTask, Task

    __version__: str

_HOMES = {
    "App": "app",
    "BadSignature": "arguments",
    "Client": "client",
    "InvalidArguments": "arguments",
    "InvalidDuration": "durations",
    "InvalidRetry": "retry",
    "InvalidTask": "task",
    "JobCancelled": "outcomes",
    "JobContext": "context",
    "JobFailed": "client",
    "JobHandle": "client",
    "JobInfo": "client",
    "JobNotSucceeded": "client",
    "JobWasCancelled": "client",
    "JobmeshError": "errors",
    "LeaseLost": "errors",
    "NotSerializable": "codec",
    "PayloadTooLarge": "errors",
    "PermanentError": "outcomes",
    "Retry": "retry",
    "RetryLater": "outcomes",
    "Snooze": "outcomes",
    "SyncJobContext": "context",
    "Task": "task",
    "TooManySteps": "outcomes",
    "connect": "client",
}

__all__ = [
    "App",
    "BadSignature",
    "Client",
    "InvalidArguments",
    "InvalidDuration",
    "InvalidRetry",
    "InvalidTask",
    "JobCancelled",
    "JobContext",
    "JobFailed",
    "JobHandle",
    "JobInfo",
    "JobNotSucceeded",
    "JobWasCancelled",
    "JobmeshError",
    "LeaseLost",
    "NotSerializable",
    "PayloadTooLarge",
    "PermanentError",
    "Retry",
    "RetryLater",
    "Snooze",
    "SyncJobContext",
    "Task",
    "TooManySteps",
    "__version__",
    "connect",
]


def __getattr__(name: str) -> object:
    if name == "__version__":
        from importlib.metadata import version

        value: object = version("jobmesh")
    elif name in _HOMES:
        value = getattr(importlib.import_module(f"jobmesh.{_HOMES[name]}"), name)
    else:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
