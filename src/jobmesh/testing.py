"""Run a handler by itself, in a user's test::

    run = await run_task(generate, month="2026-10")
    assert run.result == {"pages": 3}
    assert run.progress[-1].fraction == 1.0

Arguments and result go through JSON, as they do in the mesh, so that what passes here passes there.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, NamedTuple, TypeVar

from jobmesh import codec
from jobmesh.context import JobContext, SyncJobContext
from jobmesh.task import Task

T = TypeVar("T")

JOB_ID = "00000000-0000-7000-8000-000000000000"


class ProgressMade(NamedTuple):
    """One call of ``job.progress``."""

    fraction: float
    message: str
    current: int
    total: int


class LineLogged(NamedTuple):
    """One line of ``job.log``."""

    level: str
    message: str


@dataclass
class TaskRun:
    """What a handler did: its result as its submitter would read it, and all it told the mesh.

    ``steps`` are the results of those that it ran, by key; not of those that were there before.
    """

    result: Any = None
    progress: list[ProgressMade] = field(default_factory=list)
    log: list[LineLogged] = field(default_factory=list)
    checkpoints: list[Any] = field(default_factory=list)
    steps: dict[str, Any] = field(default_factory=dict)
    heartbeats: int = 0


@dataclass(frozen=True)
class Setting:
    """The job that a handler sees.

    :ivar restored: what an earlier attempt stored last; None if nothing.
    :ivar steps: what steps came to in earlier attempts, by the key given to ``job.once``.
    """

    job_id: str = JOB_ID
    attempt: int = 1
    failures: int = 0
    max_attempts: int = 5
    labels: Mapping[str, str] = field(default_factory=dict)
    create_time: datetime | None = field(default_factory=lambda: datetime.now(UTC))
    deadline: datetime | None = None
    queue: str = ""
    restored: object = None
    steps: Mapping[str, object] = field(default_factory=dict)


async def run_task(
    task: Task[..., Any], /, setting: Setting | None = None, **arguments: object
) -> TaskRun:
    """Run the task's handler once, a plain function in a thread.

    What the handler raises, the caller gets. To cancel it, cancel the caller (an async handler), or
    run it with :func:`run_handler` and a context of your own.

    :param setting: the job that it sees; ``arguments`` are the handler's.
    :raises jobmesh.arguments.InvalidArguments: they do not fit the handler.
    """
    setting = setting or Setting()
    recorder = Recorder(setting.steps)
    info = _Info(task, setting)
    context = JobContext(info, recorder) if task.is_async else SyncJobContext(info, recorder)
    recorder.run.result = await run_handler(task, context, **arguments)
    return recorder.run


async def run_handler(
    task: Task[..., Any], context: JobContext | SyncJobContext, /, **arguments: object
) -> Any:
    """The handler's result in this context, after a journey through JSON there and back."""
    given = task.arguments.decode(task.arguments.encode(arguments))
    if task.arguments.context_name is not None:
        given[task.arguments.context_name] = context
    if task.is_async:
        result = await task.function(**given)
    else:
        result = await asyncio.to_thread(task.function, **given)
    return codec.decode(codec.encode_within(result, "result"))


class Recorder:
    """A line to nowhere that keeps what it is told in :attr:`run`."""

    def __init__(self, steps: Mapping[str, object] | None = None) -> None:
        self.run = TaskRun()
        self._lock = threading.Lock()
        self._steps = {
            key: codec.encode(value, f"step {key}") for key, value in (steps or {}).items()
        }

    def progress(self, fraction: float, message: str, current: int, total: int) -> None:
        """Kept in full: nothing is thinned out here."""
        with self._lock:
            self.run.progress.append(ProgressMade(fraction, message, current, total))

    def log(self, level: int, message: str) -> None:
        """Kept with the level's name."""
        with self._lock:
            self.run.log.append(LineLogged(logging.getLevelName(level), message))

    def checkpoint(self, value: object) -> Future[None]:
        """Kept as it would be restored; durable at once."""
        data = codec.encode_within(value, "checkpoint")
        with self._lock:
            self.run.checkpoints.append(codec.decode(data))
        return _done(None)

    def find_step(self, key: str) -> Future[bytes | None]:
        """What an earlier attempt, or this one, stored."""
        with self._lock:
            return _done(self._steps.get(key))

    def store_step(self, key: str, data: bytes) -> Future[bytes]:
        """Kept; durable at once."""
        with self._lock:
            self.run.steps[key] = codec.decode(data)
            return _done(self._steps.setdefault(key, data))

    def heartbeat(self) -> None:
        """Counted."""
        with self._lock:
            self.run.heartbeats += 1


def _done(value: T) -> Future[T]:
    done: Future[T] = Future()
    done.set_result(value)
    return done


class _Info:
    def __init__(self, task: Task[..., Any], setting: Setting) -> None:
        self.job_id = setting.job_id
        self.type = task.name
        self.queue = setting.queue or task.queue
        self.attempt = setting.attempt
        self.failures = setting.failures
        self.max_attempts = setting.max_attempts
        self.labels = setting.labels
        self.create_time = setting.create_time
        self.deadline = setting.deadline
        self.steps = len(setting.steps)
        self.checkpoint = (
            None if setting.restored is None else codec.encode(setting.restored, "checkpoint")
        )
