"""Claims for tests of the runner's pure parts."""

from __future__ import annotations

from jobmesh.task import Task
from jobmesh.v1.runner_service_pb2 import Assignment, Report, Succeeded
from jobmesh_runner.attempt import Attempt, LatestProgress

TASK = Task(lambda: None, "task")


def attempt(number: int = 1, *, of: int = 1) -> Attempt:
    """The attempt of a job."""
    return Attempt(Assignment(job_id=f"job-{number}", attempt=of, type="task"), TASK)


def report(claim: Attempt, *, size: int = 0) -> Report:
    """It succeeded, with a result of that size."""
    done = Report(job_id=claim.key[0], attempt=claim.key[1], succeeded=Succeeded())
    done.succeeded.result.data = b"x" * size
    return done


def say(claim: Attempt, fraction: float) -> None:
    """What a handler's line does before it tells the mesh thread."""
    claim.latest = LatestProgress(fraction, "", 0, 0, 0)
    claim.progress_waits = True
