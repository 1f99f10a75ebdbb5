"""What a runner's report makes of a job: the decision, apart from its I/O."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from jobmesh_dispatcher.backoff import MAX_CRASHES, delay_seconds, max_attempts

if TYPE_CHECKING:
    from google.protobuf.duration_pb2 import Duration

    from jobmesh.v1.job_pb2 import JobError
    from jobmesh.v1.runner_service_pb2 import Report
    from jobmesh_dispatcher.lease import Lease


class Verdict(NamedTuple):
    """Where the job goes.

    `delay` in seconds, for SCHEDULED and RETRYING; `failed` charges a failure, `crashed` a crash;
    `cleared`: it is no suspect any more.
    """

    state: str
    reason: str
    attempt_outcome: str
    delay: float = 0.0
    failed: bool = False
    crashed: bool = False
    cleared: bool = False


def decide(
    report: Report, lease: Lease, state: str, u: float, seconds_left: float | None = None
) -> Verdict:
    """The verdict on a report of a job that is in `state`, RUNNING or CANCELLING.

    `u` is random in [0, 1); `seconds_left` are those until the job's deadline, if it has one.
    """
    kind = report.WhichOneof("outcome")
    if kind == "succeeded":
        return Verdict("SUCCEEDED", "COMPLETED", "SUCCEEDED")
    if state == "CANCELLING":
        return Verdict("CANCELLED", "CANCELLED", _outcome_while_cancelling(report, kind))
    if kind == "failed":
        verdict = _after_crash if report.failed.crashed else _after_failure
        return _within(verdict(report, lease, u), seconds_left)
    if kind == "snoozed":
        delay = report.snoozed.delay
        return Verdict("SCHEDULED", "SNOOZED", "SNOOZED", _seconds(delay), cleared=True)
    # Interrupted; or a runner cancelled what nobody asked it to: it runs again.
    return Verdict("QUEUED", "INTERRUPTED", "INTERRUPTED")


def _outcome_while_cancelling(report: Report, kind: str | None) -> str:
    if kind == "failed":
        return "TIMED_OUT" if report.failed.timed_out else "FAILED"
    return "CANCELLED"


def _after_failure(report: Report, lease: Lease, u: float) -> Verdict:
    failed = report.failed
    outcome = "TIMED_OUT" if failed.timed_out else "FAILED"
    failures = lease.failures + 1
    if is_permanent(failed.error, lease):
        return Verdict("DEAD", "NON_RETRYABLE", outcome, failed=True)
    if failures >= max_attempts(lease.policy):
        return Verdict("DEAD", outcome, outcome, failed=True)
    if failed.HasField("retry_after"):
        delay = _seconds(failed.retry_after)
    else:
        delay = delay_seconds(lease.policy, failures, u)
    return Verdict("RETRYING", outcome, outcome, delay, failed=True, cleared=True)


def _after_crash(report: Report, lease: Lease, u: float) -> Verdict:
    """A suspect took the process down that it was tried in: as if it had been its runner."""
    crashes = lease.crashes + 1
    if crashes > MAX_CRASHES:
        return Verdict("DEAD", "CRASHED", "FAILED", crashed=True)
    return Verdict(
        "RETRYING", "CRASHED", "FAILED", delay_seconds(lease.policy, crashes, u), crashed=True
    )


def _within(verdict: Verdict, seconds_left: float | None) -> Verdict:
    """A job that would be tried again at its deadline or later is dead now, for the same reason."""
    if seconds_left is None or verdict.state != "RETRYING" or verdict.delay < seconds_left:
        return verdict
    return verdict._replace(state="DEAD", delay=0.0)


def _seconds(duration: Duration) -> float:
    return duration.seconds + duration.nanos / 1e9


def is_permanent(error: JobError, lease: Lease) -> bool:
    """Whether the handler, or the job's policy, rules a retry out."""
    return not error.retryable or error.type in lease.policy.non_retryable_error_types
