"""A function that the mesh can run: its name, its options, its arguments."""

from __future__ import annotations

import functools
import inspect
import re
from collections.abc import Callable, Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any, Generic, ParamSpec, TypeVar

from jobmesh import codec
from jobmesh.arguments import Arguments
from jobmesh.durations import DurationLike, nanoseconds, seconds
from jobmesh.retry import Retry

if TYPE_CHECKING:
    from jobmesh.v1.job_pb2 import JobSpec

P = ParamSpec("P")
R_co = TypeVar("R_co", covariant=True)

DEFAULT_QUEUE = "default"
LEAST_TIMEOUT = 0.001
MOST_TIMEOUT = 366 * 86400.0

_NAME = re.compile(r"[A-Za-z0-9._-]{1,200}")


class InvalidTask(ValueError):
    """A task's name, function or option cannot be used."""


class Task(Generic[P, R_co]):
    """What ``@app.task`` makes of a function. Calling it calls the function, here and now.

    :ivar name: the job type.
    :ivar function: the handler itself.
    :ivar queue: where its jobs wait unless the submitter says otherwise.
    :ivar timeout: seconds that an attempt may run, or None.
    :ivar retry: its retry policy, or None for the queue's.
    :ivar priority: 0–9, or None for the default.
    :ivar process: whether each attempt is run in a process of its own.
    :ivar heartbeat_timeout: seconds that the handler may be silent, or None.
    :ivar expires_after: seconds after which a job that has not started expires, or None.
    """

    __name__: str

    def __init__(
        self,
        function: Callable[P, R_co],
        name: str | None = None,
        *,
        queue: str = DEFAULT_QUEUE,
        timeout: DurationLike | None = None,
        retry: Retry | None = None,
        priority: int | None = None,
        process: bool = False,
        heartbeat_timeout: DurationLike | None = None,
        expires_after: DurationLike | None = None,
    ) -> None:
        _require_handler(function)
        self.function = function
        self.name = checked_name("name", name if name is not None else default_name(function))
        self.queue = checked_name("queue", queue)
        self.timeout = _checked_length("timeout", timeout, LEAST_TIMEOUT)
        self.heartbeat_timeout = _checked_length("heartbeat_timeout", heartbeat_timeout, 1.0)
        self.expires_after = _checked_length("expires_after", expires_after, 1.0)
        self.process = process
        self.retry = retry
        self.priority = _checked_priority(priority)
        functools.update_wrapper(self, function)

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R_co:
        return self.function(*args, **kwargs)

    def __repr__(self) -> str:
        return f"<Task {self.name}>"

    @cached_property
    def is_async(self) -> bool:
        """Whether the handler runs on the loop; otherwise it runs in a thread."""
        return is_async(self.function)

    @cached_property
    def arguments(self) -> Arguments:
        """How its arguments are decoded.

        Made on first use, since annotations may name what the module defines further down.

        :raises jobmesh.arguments.BadSignature: they cannot be.
        """
        return Arguments(self.function)

    def spec(self, arguments: Mapping[str, object]) -> JobSpec:
        """A job of this task as the mesh takes it, its arguments checked against the signature.

        :raises jobmesh.arguments.InvalidArguments: they do not fit.
        """
        from jobmesh.v1.job_pb2 import JobSpec, Payload

        data = self.arguments.encode(arguments)
        spec = JobSpec(
            type=self.name,
            queue=self.queue,
            payload=Payload(data=data, content_type=codec.CONTENT_TYPE),
            priority=self.priority,
        )
        if self.retry is not None:
            spec.retry_policy.CopyFrom(self.retry.to_proto())
        for field in ("timeout", "heartbeat_timeout", "expires_after"):
            if (length := getattr(self, field)) is not None:
                getattr(spec, field).FromNanoseconds(nanoseconds(length))
        return spec


def is_async(function: Callable[..., Any]) -> bool:
    """Whether calling the function, partial or callable object gives a coroutine."""
    while isinstance(function, functools.partial):
        function = function.func
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(
        getattr(function, "__call__", None)  # noqa: B004
    )


def checked_name(field: str, name: str) -> str:
    """The name of a task or queue, if it is one.

    :raises InvalidTask: it is not.
    """
    if not _NAME.fullmatch(name):
        raise InvalidTask(
            f"{field} {name[:210]!r}: 1 to 200 characters of A-Z, a-z, 0-9, dot, "
            "underscore and hyphen are allowed"
        )
    return name


def default_name(function: Callable[..., Any]) -> str:
    """``module.function``, also for the module that was started as the program.

    :raises InvalidTask: a function inside another, or without a name, needs one to be given.
    """
    name = getattr(function, "__qualname__", None)
    if name is None or "<" in name:
        raise InvalidTask(f'{function!r} has no name of its own: use @app.task("its.name")')
    return f"{_module_name(function.__module__)}.{name}"


def _module_name(module: str) -> str:
    if module != "__main__":
        return module
    import sys
    from pathlib import Path

    main = sys.modules["__main__"]
    spec = getattr(main, "__spec__", None)
    if spec is not None:
        return str(spec.name).removesuffix(".__main__")
    return Path(getattr(main, "__file__", None) or "__main__").stem


def _require_handler(function: object) -> None:
    if isinstance(function, Task):
        raise InvalidTask(f"{function!r} is a task already")
    if not callable(function) or isinstance(function, type):
        raise InvalidTask(f"{function!r} is not a function")
    if inspect.isasyncgenfunction(function) or inspect.isgeneratorfunction(function):
        raise InvalidTask(f"{function!r} is a generator; a handler returns one result")


def _checked_length(field: str, value: DurationLike | None, least: float) -> float | None:
    if value is None:
        return None
    length = seconds(value, field)
    if not least <= length <= MOST_TIMEOUT:
        shown = "1 ms" if least < 1 else "1 s"
        raise InvalidTask(f"{field}: must be {shown} to 366 days, not {value!r}")
    return length


def _checked_priority(priority: int | None) -> int | None:
    if priority is None:
        return None
    if type(priority) is not int or not 0 <= priority <= 9:
        raise InvalidTask(f"priority: must be 0 to 9, not {priority!r}")
    return priority
