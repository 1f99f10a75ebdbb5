"""Submitting jobs, with options that never collide with a handler's arguments."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, overload

from jobmesh.client.calls import Calls
from jobmesh.client.chunks import chunks
from jobmesh.client.grouping import MOST_BYTES, MOST_JOBS, Submitting
from jobmesh.client.handle import JobHandle
from jobmesh.client.options import SubmitOptions
from jobmesh.client.submission import Submission, prepare
from jobmesh.errors import JobmeshError

if TYPE_CHECKING:
    from jobmesh.task import Task

    AnyTask: TypeAlias = Task[..., Any] | str
    """A task, or the type's name where the code of its handler is not at hand."""


class Submitter:
    """Submits jobs with a set of options; keyword arguments are the handler's alone."""

    def __init__(self, calls: Calls, submitting: Submitting, options: SubmitOptions) -> None:
        self._calls = calls
        self._submitting = submitting
        self.options = options

    def with_options(self, **options: Any) -> Submitter:
        """A submitter with other options, e.g. ``mesh.with_options(priority=9, delay="5m")``.

        They are those of :class:`SubmitOptions`; labels are added to those there are.

        Raises:
            TypeError: there is no such option. ValueError: one is malformed.
        """
        return Submitter(self._calls, self._submitting, self.options.merged(**options))

    def prepare(self, task: AnyTask, /, **arguments: Any) -> Submission:
        """A submission for :meth:`submit_many`, checked and encoded; nothing is sent.

        Raises:
            InvalidArguments: they do not fit the task's handler.
            PayloadTooLarge: they are too long.
        """
        return prepare(task, arguments, self.options)

    async def submit(self, task: AnyTask, /, **arguments: Any) -> JobHandle:
        """Submit a job; it is durable once this returns.

        Safe to be repeated by the client itself: every submission has a ``request_id``.

        Args:
            task: what ``@app.task`` made, or the name of a type.
            arguments: the handler's. Options are set by :meth:`with_options`.

        Raises:
            InvalidArguments: they do not fit the task's handler; nothing was sent.
            JobmeshError: the mesh refused the job, or does not answer.
        """
        submission = prepare(task, arguments, self.options)
        answer = await self._submitting.submit(submission)
        return self._handle(answer.job.job_id, answer.created)

    @overload
    async def submit_many(
        self,
        submissions: Iterable[Submission | tuple[AnyTask, Mapping[str, Any]]],
        *,
        partial: Literal[False] = False,
    ) -> list[JobHandle]: ...

    @overload
    async def submit_many(
        self,
        submissions: Iterable[Submission | tuple[AnyTask, Mapping[str, Any]]],
        *,
        partial: bool,
    ) -> list[JobHandle | JobmeshError]: ...

    async def submit_many(
        self,
        submissions: Iterable[Submission | tuple[AnyTask, Mapping[str, Any]]],
        *,
        partial: bool = False,
    ) -> list[JobHandle] | list[JobHandle | JobmeshError]:
        """Submit any number of jobs, 10,000 or 8 MiB a call; a handle for each, in order.

        Args:
            submissions: what :meth:`prepare` returned, or ``(task, arguments)``.
            partial: each job is refused by itself, and its error stands in place of its handle.
                Otherwise the first error is raised: its call stored nothing, earlier ones did. The
                same submissions sent again find the jobs that are there.

        Raises:
            JobmeshError: as :meth:`submit`.
        """
        handles: list[JobHandle | JobmeshError] = []
        prepared = (self._prepared(item) for item in submissions)
        for chunk in chunks(prepared, MOST_JOBS, MOST_BYTES):
            for answer in await self._submitting.send_all(chunk, partial=partial):
                if not isinstance(answer, JobmeshError):
                    handles.append(self._handle(answer.job.job_id, answer.created))
                elif partial:
                    handles.append(answer)
                else:
                    raise answer
        return handles

    def _prepared(self, item: Submission | tuple[AnyTask, Mapping[str, Any]]) -> Submission:
        if isinstance(item, Submission):
            return item
        if self.options.request_id is not None:
            raise ValueError("one request_id for many jobs: use prepare() to give each its own")
        task, arguments = item
        return prepare(task, arguments, self.options)

    def _handle(self, job_id: str, created: bool) -> JobHandle:
        return JobHandle(self._calls, job_id, created=created)
