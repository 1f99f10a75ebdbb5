"""Whatever a runner reports can be stored, and tells what happened."""

from __future__ import annotations

import math

from hypothesis import given
from hypothesis import strategies as st

from jobmesh.v1 import runner_service_pb2 as pb
from jobmesh.v1.job_pb2 import JobError, Payload, Progress
from jobmesh_dispatcher.report_limits import (
    MOST_BYTES,
    MOST_RUN_SECONDS,
    make_storable,
    not_storable,
    storable_payload,
)

texts = st.text(st.characters(exclude_categories=["Cs"]) | st.just("\0"), max_size=300)


@given(type_=texts, message=texts, traceback=texts)
def test_no_text_of_an_error_holds_what_the_database_refuses(
    type_: str, message: str, traceback: str
) -> None:
    error = JobError(type=type_, message=message, traceback=traceback, retryable=True)
    report = pb.Report(failed=pb.Failed(error=error))
    make_storable(report)
    kept = report.failed.error
    assert "\0" not in kept.type + kept.message + kept.traceback
    assert len(kept.type) <= 200
    assert kept.message == message.replace("\0", "\N{REPLACEMENT CHARACTER}")
    assert kept.retryable


def test_long_texts_are_cut_to_what_the_contract_says() -> None:
    error = JobError(type="t" * 9000, message="m" * 9000, traceback="é" * 200_000)
    progress = Progress(message="p" * 9000)
    report = pb.Report(failed=pb.Failed(error=error), progress=progress)
    make_storable(report)
    kept = report.failed.error
    assert (len(kept.type), len(kept.message)) == (200, 4000)
    assert len(kept.traceback.encode()) <= 64 << 10
    assert len(report.progress.message) == 1000


@given(seconds=st.floats())
def test_a_time_is_finite_and_not_negative(seconds: float) -> None:
    report = pb.Report(run_seconds=seconds)
    make_storable(report)
    assert 0 <= report.run_seconds <= MOST_RUN_SECONDS
    if 0 <= seconds <= MOST_RUN_SECONDS:
        assert report.run_seconds == seconds


@given(seconds=st.integers(-(2**63), 2**63 - 1), nanos=st.integers(-(2**31), 2**31 - 1))
def test_a_delay_is_at_most_a_year(seconds: int, nanos: int) -> None:
    snoozed, failed = pb.Report(snoozed=pb.Snoozed()), pb.Report(failed=pb.Failed())
    for delay in (snoozed.snoozed.delay, failed.failed.retry_after):
        delay.seconds, delay.nanos = seconds, nanos
    for report, delay in (
        (snoozed, snoozed.snoozed.delay),
        (failed, failed.failed.retry_after),
    ):
        make_storable(report)
        assert 0 <= delay.seconds + delay.nanos / 1e9 <= 366 * 86_400
    assert not math.isnan(failed.run_seconds)


def test_a_result_that_is_too_large_is_a_permanent_failure() -> None:
    data = Payload(data=b"x" * (MOST_BYTES + 1), content_type="application/json")
    report = pb.Report(job_id="j", attempt=3, succeeded=pb.Succeeded(result=data), run_seconds=2)
    make_storable(report)
    assert report.failed.error.type == "PayloadTooLarge"
    assert not report.failed.error.retryable
    assert (report.job_id, report.attempt, report.run_seconds) == ("j", 3, 2)


def test_a_result_that_fits_stays_as_it_is() -> None:
    data = Payload(data=b"x" * MOST_BYTES, content_type="application/json")
    report = pb.Report(succeeded=pb.Succeeded(result=data))
    make_storable(report)
    assert report.succeeded.result == data


def test_a_content_type_is_made_fit() -> None:
    payload = Payload(data=b"1", content_type="a\0" * 500)
    storable_payload(payload)
    assert "\0" not in payload.content_type
    assert len(payload.content_type) <= 200


def test_what_cannot_be_stored_in_spite_of_it_ends_as_a_permanent_failure() -> None:
    report = pb.Report(job_id="j", attempt=2, succeeded=pb.Succeeded())
    ended = not_storable(report, ValueError("no"))
    assert (ended.job_id, ended.attempt) == ("j", 2)
    assert not ended.failed.error.retryable
    assert "ValueError" in ended.failed.error.message
