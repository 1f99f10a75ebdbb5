"""One job, as a caller holds it: read, watched, waited for, cancelled, retried."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterable
from typing import Any

import msgspec

from jobmesh import codec
from jobmesh.client.calls import Calls
from jobmesh.client.events import Event
from jobmesh.client.info import Attempt, JobInfo, LogLine, attempt_of, job_info
from jobmesh.client.logs import read_log
from jobmesh.client.outcome import result_of
from jobmesh.client.states import JobReason
from jobmesh.client.waiting import wait_for_end
from jobmesh.client.watching import kinds_of, watch_job
from jobmesh.errors import RevisionMismatch
from jobmesh.v1 import job_pb2, job_service_pb2


class JobHandle:
    """A job in the mesh, by its id. Making one calls nothing.

    Every method raises a :class:`jobmesh.errors.JobmeshError` if the mesh refuses or does not
    answer, e.g. :class:`~jobmesh.errors.NotFound`.
    """

    __slots__ = ("_calls", "created", "id")

    def __init__(self, calls: Calls, job_id: str, *, created: bool = True) -> None:
        self._calls = calls
        self.id = job_id
        self.created = created
        """False if the submission found a job with its ``request_id``."""

    def __repr__(self) -> str:
        return f"JobHandle({self.id!r})"

    async def get(self, *, full: bool = True) -> JobInfo:
        """The job as it stands; without payload, result, checkpoint and history if not `full`."""
        return job_info(await self._get(job_pb2.JOB_VIEW_FULL if full else job_pb2.JOB_VIEW_BASIC))

    def watch(
        self, *, after_revision: int = 0, include: Iterable[str] = ("progress",)
    ) -> AsyncGenerator[Event, None]:
        """Everything that happens to the job, until it ends.

        A snapshot first, every change of state after ``after_revision`` once and in order, and at
        last the terminal job. A lost connection is made again, and nothing of this is missed.

        Args:
            include: kinds of events beside those: ``progress``, ``log``, ``checkpoint``.

        Raises:
            ValueError: a kind is unknown.
        """
        return watch_job(self._calls, self.id, after_revision, kinds_of(include))

    async def wait(self, timeout: float | None = None) -> JobInfo:
        """The job (FULL), once it is terminal, whatever became of it.

        Raises:
            TimeoutError: it was not within ``timeout`` seconds; the job goes on.
        """
        return await wait_for_end(self._calls, self.id, timeout)

    async def result(self, timeout: float | None = None, as_type: Any = None) -> Any:
        """What the handler returned, once it has.

        Args:
            timeout: seconds to wait.
            as_type: decode the result to this type, e.g. a dataclass; plain values by default.

        Raises:
            JobFailed, JobWasCancelled: there is no result; the exception has the job.
            TimeoutError: not within ``timeout`` seconds; the job goes on.
            msgspec.ValidationError: the result does not fit ``as_type``.
        """
        value = result_of(await self.wait(timeout))
        if as_type is None:
            return value
        return msgspec.convert(value, as_type, dec_hook=codec.decode_foreign)

    async def cancel(self, reason: str = "") -> JobInfo:
        """Cancel the job, or ask its handler to stop if it runs; the job after it."""
        request = job_service_pb2.CancelJobRequest(job_id=self.id, reason=reason)
        return job_info(await self._calls.unary(self._calls.jobs.CancelJob, request))

    async def retry(self) -> JobInfo:
        """Queue a terminal job again; the job after it.

        Raises:
            WrongState: it is not terminal.
        """
        # Bound to the revision, a call that is sent twice cannot run the job twice.
        seen = await self._get(job_pb2.JOB_VIEW_BASIC)
        request = job_service_pb2.RetryJobRequest(job_id=self.id, expected_revision=seen.revision)
        try:
            return job_info(await self._calls.unary(self._calls.jobs.RetryJob, request))
        except RevisionMismatch:
            job = await self.get()
            if not _was_retried_at(job, seen.revision + 1):
                raise
            return job

    async def attempts(self) -> list[Attempt]:
        """The attempts, oldest first; the last 100."""
        request = job_service_pb2.ListAttemptsRequest(job_id=self.id)
        answer = await self._calls.unary(self._calls.jobs.ListAttempts, request)
        return [attempt_of(attempt) for attempt in answer.attempts]

    def logs(
        self, *, follow: bool = False, after_sequence: int = 0
    ) -> AsyncGenerator[LogLine, None]:
        """What the job's handlers logged; with ``follow``, also what they will, until it ends."""
        return read_log(self._calls, self.id, after_sequence, follow)

    async def _get(self, view: job_pb2.JobView.ValueType) -> job_pb2.Job:
        request = job_service_pb2.GetJobRequest(job_id=self.id, view=view)
        return await self._calls.unary(self._calls.jobs.GetJob, request)


def _was_retried_at(job: JobInfo, revision: int) -> bool:
    return any(
        change.revision == revision and change.reason is JobReason.RETRIED for change in job.history
    )
