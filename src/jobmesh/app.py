"""The registry of a program's tasks, which a runner serves."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, ParamSpec, TypeVar, overload

from jobmesh.declared import DeclaredSchedule, InvalidSchedule
from jobmesh.durations import DurationLike
from jobmesh.retry import Retry
from jobmesh.task import DEFAULT_QUEUE, InvalidTask, Task

P = ParamSpec("P")
R = TypeVar("R")


class App:
    """Tasks by name::

        app = App()

        @app.task("reports.generate", queue="reports", timeout="10m", retry=Retry(max_attempts=5))
        async def generate(job: JobContext, month: str, rows: int = 1000) -> dict[str, int]: ...

    ``jobmesh runner --app module:app`` runs them.
    """

    def __init__(self) -> None:
        self._tasks: dict[str, Task[Any, Any]] = {}
        self._schedules: dict[str, DeclaredSchedule] = {}

    @property
    def tasks(self) -> Mapping[str, Task[Any, Any]]:
        """The tasks by name; not to be changed."""
        return MappingProxyType(self._tasks)

    @property
    def schedules(self) -> Mapping[str, DeclaredSchedule]:
        """The declared schedules by id; not to be changed."""
        return MappingProxyType(self._schedules)

    @overload
    def task(self, name: Callable[P, R], /) -> Task[P, R]: ...

    @overload
    def task(
        self,
        name: str | None = None,
        /,
        *,
        queue: str = DEFAULT_QUEUE,
        timeout: DurationLike | None = None,
        retry: Retry | None = None,
        process: bool = False,
        priority: int | None = None,
        heartbeat_timeout: DurationLike | None = None,
        expires_after: DurationLike | None = None,
    ) -> Callable[[Callable[P, R]], Task[P, R]]: ...

    def task(
        self,
        name: Callable[P, R] | str | None = None,
        /,
        *,
        queue: str = DEFAULT_QUEUE,
        timeout: DurationLike | None = None,
        retry: Retry | None = None,
        process: bool = False,
        priority: int | None = None,
        heartbeat_timeout: DurationLike | None = None,
        expires_after: DurationLike | None = None,
    ) -> Task[P, R] | Callable[[Callable[P, R]], Task[P, R]]:
        """Make a function a task, as ``@app.task`` or ``@app.task(…)``.

        :param name: the job type; ``module.function`` if left out.
        :param queue: where its jobs wait unless the submitter says otherwise.
        :param timeout: the longest that an attempt may run, e.g. ``"10m"``.
        :param retry: its retry policy instead of the queue's.
        :param process: run each attempt in a process of its own, which may crash, or be killed,
            without harm to others.
        :param priority: 0 to 9, 9 first.
        :param heartbeat_timeout: the longest that the handler may be silent; it reports by
            progress, log, checkpoint, a step, or ``job.heartbeat()``.
        :param expires_after: cancel a job that has not started so long after it became ready.
        :raises InvalidTask: the name is taken or malformed, or an option out of its bounds.
        """

        def register(function: Callable[P, R]) -> Task[P, R]:
            given = name if isinstance(name, str) else None
            task = Task(
                function,
                given,
                queue=queue,
                timeout=timeout,
                retry=retry,
                priority=priority,
                process=process,
                heartbeat_timeout=heartbeat_timeout,
                expires_after=expires_after,
            )
            self.add(task)
            return task

        return register(name) if callable(name) else register

    def schedule(
        self,
        cron: str | Sequence[str] = (),
        /,
        *,
        schedule_id: str | None = None,
        arguments: Mapping[str, Any] | None = None,
        **settings: Any,
    ) -> Callable[[Task[P, R]], Task[P, R]]:
        """Submit a task again and again, from when the first runner serves this app::

            @app.schedule("0 2 * * *", time_zone="Europe/Berlin")
            @app.task("reports.nightly")
            async def nightly(job: JobContext) -> None: ...

        The schedule belongs to the app: a runner that starts makes it what is declared, and removes
        what the app no longer declares.

        :param cron: one expression or several; none if ``every`` or ``include`` say when.
        :param schedule_id: its name; the task's if left out.
        :param arguments: of each job.
        :param settings: as of ``mesh.schedules.create``: ``time_zone``, ``every``, ``exclude``,
            ``overlap``, ``catchup``, ``jitter``, ``queue``, …
        :raises InvalidSchedule: it makes no sense, or the id is taken.
        """

        def declare(task: Task[P, R]) -> Task[P, R]:
            if not isinstance(task, Task):
                raise InvalidSchedule("@app.schedule stands above @app.task")
            times = {"cron": cron} if cron else {}
            self._declare(
                DeclaredSchedule(schedule_id or task.name, task, arguments or {}, times | settings)
            )
            return task

        return declare

    def _declare(self, declared: DeclaredSchedule) -> None:
        present = self._schedules.setdefault(declared.schedule_id, declared)
        if present is not declared:
            raise InvalidSchedule(
                f"schedule {declared.schedule_id} is declared already; give it a schedule_id"
            )

    def add(self, task: Task[..., Any]) -> None:
        """Register a task that another app made, or none.

        :raises InvalidTask: another one has its name.
        """
        present = self._tasks.setdefault(task.name, task)
        if present is not task:
            raise InvalidTask(
                f"task {task.name} is registered already, by {_place(present)}; "
                f"give {_place(task)} another name"
            )

    def include(self, other: App) -> None:
        """Register all tasks and schedules of another app; so programs are put together."""
        for task in other.tasks.values():
            self.add(task)
        for declared in other.schedules.values():
            self._declare(declared)


def _place(task: Task[..., Any]) -> str:
    function = task.function
    module = getattr(function, "__module__", "?")
    return f"{module}.{getattr(function, '__qualname__', function)}"
