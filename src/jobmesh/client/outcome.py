"""What waiting for a result raises when there is none."""

from __future__ import annotations

from typing import Any

from jobmesh.client.info import JobInfo
from jobmesh.states import State


class JobNotSucceeded(Exception):
    """A job ended without a result; ``job`` is how it ended (FULL)."""

    def __init__(self, job: JobInfo, message: str) -> None:
        super().__init__(message)
        self.job = job

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (self.job,)


class JobFailed(JobNotSucceeded):
    """The job is DEAD: its attempts are used up, or its error was permanent."""

    def __init__(self, job: JobInfo) -> None:
        why = str(job.error) if job.error else job.reason or "no error was recorded"
        super().__init__(job, f"job {job.id} ({job.type}) failed at attempt {job.attempt}: {why}")


class JobWasCancelled(JobNotSucceeded):
    """The job is CANCELLED: somebody stopped it, or it expired.

    Not :class:`jobmesh.JobCancelled`, which ends an attempt of a handler that was told to stop: a
    handler that waits for another job must not look as if it had been told so itself.
    """

    def __init__(self, job: JobInfo) -> None:
        why = f": {job.cancel_reason}" if job.cancel_reason else ""
        super().__init__(job, f"job {job.id} ({job.type}) was cancelled{why}")


def result_of(job: JobInfo) -> Any:
    """The result of a terminal job.

    Raises:
        JobFailed, JobWasCancelled: it has none.
    """
    if job.state is State.DEAD:
        raise JobFailed(job)
    if job.state is State.CANCELLED:
        raise JobWasCancelled(job)
    return job.result
