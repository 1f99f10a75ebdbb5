"""What a report makes of a job."""

from __future__ import annotations

from uuid import UUID

from hypothesis import given
from hypothesis import strategies as st

from jobmesh.ids import new_id
from jobmesh.states import TRANSITIONS, State
from jobmesh.v1 import runner_service_pb2 as pb
from jobmesh.v1.job_pb2 import JobError, RetryPolicy
from jobmesh_dispatcher.backoff import delay_seconds
from jobmesh_dispatcher.lease import Lease
from jobmesh_dispatcher.outcomes import decide


def lease(failures: int = 0, policy: RetryPolicy | None = None, crashes: int = 0) -> Lease:
    return Lease(
        job_id=UUID(new_id()),
        attempt=1,
        session_id=UUID(new_id()),
        namespace="default",
        queue="default",
        priority=4,
        type="t",
        failures=failures,
        crashes=crashes,
        suspect=0,
        policy=policy or RetryPolicy(),
        counted=False,
        started=True,
        reported=False,
        log_lines=0,
        log_bytes=0,
    )


def failed(error_type: str = "ValueError", *, retryable: bool = True) -> pb.Report:
    error = JobError(type=error_type, message="no", retryable=retryable)
    return pb.Report(failed=pb.Failed(error=error))


reports = st.sampled_from(
    [
        pb.Report(succeeded=pb.Succeeded()),
        failed(),
        failed(retryable=False),
        pb.Report(failed=pb.Failed(error=JobError(retryable=True), timed_out=True)),
        pb.Report(failed=pb.Failed(error=JobError(retryable=True), crashed=True)),
        pb.Report(cancelled=pb.Cancelled()),
        pb.Report(snoozed=pb.Snoozed()),
        pb.Report(interrupted=pb.Interrupted()),
        pb.Report(),
    ]
)


@given(
    reports,
    st.integers(0, 6),
    st.sampled_from(["RUNNING", "CANCELLING"]),
    st.floats(0, 1, exclude_max=True),
    st.none() | st.floats(-10, 10),
)
def test_a_verdict_is_a_transition_that_exists(
    report: pb.Report, number: int, state: str, u: float, left: float | None
) -> None:
    verdict = decide(report, lease(number, crashes=number), state, u, left)
    assert State(verdict.state) in TRANSITIONS[State(state)]
    assert verdict.delay >= 0
    assert not (verdict.failed and verdict.crashed)
    if left is not None and verdict.state == "RETRYING":
        assert verdict.delay < left  # nothing is tried again beyond the deadline


def test_a_suspect_that_ends_its_process_is_charged_a_crash_and_stays_one() -> None:
    crashed = pb.Report(failed=pb.Failed(error=JobError(retryable=True), crashed=True))
    policy = RetryPolicy(max_attempts=1)  # it is no failure
    verdict = decide(crashed, lease(0, policy, crashes=2), "RUNNING", 0.5)
    assert (verdict.state, verdict.reason) == ("RETRYING", "CRASHED")
    assert (verdict.crashed, verdict.cleared) == (True, False)
    verdict = decide(crashed, lease(0, policy, crashes=3), "RUNNING", 0.5)
    assert (verdict.state, verdict.reason) == ("DEAD", "CRASHED")


def test_a_job_with_no_time_left_for_another_attempt_is_dead_for_what_failed() -> None:
    timed_out = pb.Report(failed=pb.Failed(error=JobError(retryable=True), timed_out=True))
    verdict = decide(timed_out, lease(), "RUNNING", 0.0, -0.1)
    assert (verdict.state, verdict.reason) == ("DEAD", "TIMED_OUT")
    verdict = decide(failed(), lease(), "RUNNING", 0.0, 0.9)  # the backoff is 1 s
    assert (verdict.state, verdict.reason) == ("DEAD", "FAILED")
    assert decide(failed(), lease(), "RUNNING", 0.0, 1.1).state == "RETRYING"


def test_whatever_a_suspect_reports_of_its_handler_clears_it() -> None:
    snoozed = pb.Report(snoozed=pb.Snoozed())
    assert decide(failed(), lease(), "RUNNING", 0.5).cleared
    assert decide(snoozed, lease(), "RUNNING", 0.5).cleared
    interrupted = pb.Report(interrupted=pb.Interrupted())
    assert not decide(interrupted, lease(), "RUNNING", 0.5).cleared


def test_the_last_failure_that_is_allowed_is_the_end() -> None:
    policy = RetryPolicy(max_attempts=3)
    assert decide(failed(), lease(1, policy), "RUNNING", 0.5).state == "RETRYING"
    assert decide(failed(), lease(2, policy), "RUNNING", 0.5).state == "DEAD"


def test_an_error_that_the_policy_names_is_the_end_at_once() -> None:
    policy = RetryPolicy(non_retryable_error_types=["KeyError"])
    verdict = decide(failed("KeyError"), lease(0, policy), "RUNNING", 0.5)
    assert (verdict.state, verdict.reason) == ("DEAD", "NON_RETRYABLE")


def test_an_interruption_charges_nothing() -> None:
    verdict = decide(pb.Report(interrupted=pb.Interrupted()), lease(), "RUNNING", 0.5)
    assert (verdict.state, verdict.failed) == ("QUEUED", False)


def test_a_handler_that_completed_while_it_was_cancelled_has_succeeded() -> None:
    verdict = decide(pb.Report(succeeded=pb.Succeeded()), lease(), "CANCELLING", 0.5)
    assert verdict.state == "SUCCEEDED"


@given(
    st.integers(1, 5000),
    st.floats(0, 1, exclude_max=True),
    st.floats(0, 1),
    st.floats(1, 100),
)
def test_a_backoff_lies_between_nothing_and_the_longest(
    failures: int, u: float, jitter: float, coefficient: float
) -> None:
    policy = RetryPolicy(jitter=jitter, backoff_coefficient=coefficient)
    policy.initial_interval.FromMilliseconds(500)
    policy.max_interval.FromSeconds(60)
    delay = delay_seconds(policy, failures, u)
    assert 0 <= delay <= 60
    longer = delay_seconds(policy, failures + 1, u)
    assert longer >= delay


def test_without_jitter_waits_double() -> None:
    policy = RetryPolicy(jitter=0.0)
    assert [delay_seconds(policy, n, 0.3) for n in (1, 2, 3, 20)] == [1, 2, 4, 300]
