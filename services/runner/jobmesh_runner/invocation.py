"""One call of a handler: its arguments and context before, its outcome after."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator
from typing import Any

from jobmesh.arguments import InvalidArguments
from jobmesh.context import JobContext, SyncJobContext
from jobmesh.errors import InvalidField
from jobmesh.payload import canonical_json
from jobmesh.server import logs, tracing
from jobmesh.v1.job_pb2 import Payload
from jobmesh.v1.runner_service_pb2 import Report
from jobmesh_runner import outcome
from jobmesh_runner.attempt import Attempt, AttemptInfo
from jobmesh_runner.line import HandlerLine
from jobmesh_runner.port import HandlerPort

_JSON = ("", "application/json")


class Invocation:
    """Calls handlers, in a task of the users' loop or in a thread. It never raises."""

    def __init__(self, mesh: HandlerPort, limit_bytes: int) -> None:
        self._mesh = mesh
        self._limit = limit_bytes
        self._scope = _traced if tracing.enabled() else _named

    async def run_async(self, attempt: Attempt) -> Report | None:
        """The outcome of an ``async`` handler."""
        attempt.entered = True
        if attempt.stop is not None:
            return outcome.not_begun(attempt.key, attempt.stop)
        try:
            with self._scope(attempt):
                result = await self._prepare(attempt)()
            await _settle(attempt)
        except BaseException as error:  # SystemExit too: a handler does not end the runner
            await _settle(attempt)
            return outcome.raised(attempt.key, attempt.stop, error, _seconds(attempt))
        return outcome.returned(attempt.key, attempt.stop, result, _seconds(attempt), self._limit)

    def run_sync(self, attempt: Attempt) -> Report | None:
        """The outcome of a plain handler, in the thread that this is called in."""
        if attempt.stop is not None:
            return outcome.not_begun(attempt.key, attempt.stop)
        try:
            with self._scope(attempt):
                result = self._prepare(attempt)()
        except BaseException as error:
            return outcome.raised(attempt.key, attempt.stop, error, _seconds(attempt))
        return outcome.returned(attempt.key, attempt.stop, result, _seconds(attempt), self._limit)

    def _prepare(self, attempt: Attempt) -> Callable[[], Any]:
        """The handler with its arguments.

        :raises InvalidArguments: the payload does not fit it.
        """
        task = attempt.task
        assert task is not None
        arguments = task.arguments.decode(json_of(attempt.assignment.payload))
        context_name = task.arguments.context_name
        if context_name is not None:
            arguments[context_name] = self._context(attempt, is_async=task.is_async)
        function = task.function
        return lambda: function(**arguments)

    def _context(self, attempt: Attempt, *, is_async: bool) -> JobContext | SyncJobContext:
        info = AttemptInfo(attempt.assignment)
        line = HandlerLine(attempt, self._mesh, self._limit)
        context = JobContext(info, line) if is_async else SyncJobContext(info, line)
        attempt.context = context
        if attempt.stop is not None:
            # The mesh thread set it meanwhile, and may have found no context to tell.
            context.cancelled.reason = attempt.stop.reason
            context.cancelled.set()
        return context


async def _settle(attempt: Attempt) -> None:
    """What is not stored when the outcome is reported is not stored any more."""
    if isinstance(attempt.context, JobContext):
        await attempt.context.settle_steps()


def json_of(payload: Payload) -> bytes:
    """The payload as JSON.

    :raises InvalidArguments: it is something else.
    """
    if payload.content_type not in _JSON and not payload.content_type.startswith(
        "application/json;"
    ):
        raise InvalidArguments(
            "", f"the payload is {payload.content_type[:100]}; a handler takes application/json"
        )
    if payload.WhichOneof("content") != "json":
        return payload.data or b"{}"
    try:
        return canonical_json(payload.json, "payload")
    except InvalidField as error:
        raise InvalidArguments("", str(error)) from None


def _seconds(attempt: Attempt) -> float:
    # Never 0, which would say that the handler did not begin.
    return max(time.perf_counter() - attempt.began_at, 1e-9)


@contextlib.contextmanager
def _named(attempt: Attempt) -> Iterator[None]:
    with logs.job_context(attempt.job_id):
        yield


@contextlib.contextmanager
def _traced(attempt: Attempt) -> Iterator[None]:
    assignment = attempt.assignment
    attributes: dict[str, str | int | float] = {
        "jobmesh.job_id": assignment.job_id,
        "jobmesh.attempt": assignment.attempt,
        "jobmesh.queue": assignment.queue,
    }
    span = tracing.span_from(assignment.traceparent, f"run {assignment.type}", attributes)
    with logs.job_context(assignment.job_id), span:
        yield
