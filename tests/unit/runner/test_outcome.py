from __future__ import annotations

import asyncio
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobmesh import InvalidArguments, JobCancelled, PermanentError, RetryLater, Snooze
from jobmesh.v1.runner_service_pb2 import Report
from jobmesh_runner import outcome
from jobmesh_runner.attempt import Stop, StopKind
from jobmesh_runner.job_error import MESSAGE_CHARACTERS, TRACEBACK_BYTES, job_error

KEY = ("job", 3)
LIMIT = 1 << 20
CANCELLED = Stop(StopKind.CANCELLED, "by Ann")
TIMED_OUT = Stop(StopKind.TIMED_OUT, "10 s")
LOST = Stop(StopKind.LOST)
INTERRUPTED = Stop(StopKind.INTERRUPTED)


class Odd(Exception):
    pass


def kind(report: Report | None) -> str:
    if report is None:
        return "nothing"
    assert (report.job_id, report.attempt) == KEY
    found = str(report.WhichOneof("outcome"))
    return "timed_out" if found == "failed" and report.failed.timed_out else found


@pytest.mark.parametrize(
    ("stop", "expected"),
    [
        (None, "succeeded"),
        (CANCELLED, "succeeded"),
        (INTERRUPTED, "succeeded"),
        (TIMED_OUT, "timed_out"),
        (LOST, "nothing"),
    ],
)
def test_a_handler_that_returned(stop: Stop | None, expected: str) -> None:
    assert kind(outcome.returned(KEY, stop, {"a": 1}, 0.5, LIMIT)) == expected


@pytest.mark.parametrize(
    ("stop", "error", "expected"),
    [
        (None, Odd(), "failed"),
        (None, asyncio.CancelledError(), "failed"),
        (None, SystemExit(1), "failed"),
        (None, KeyboardInterrupt(), "failed"),
        (None, JobCancelled(), "failed"),
        (None, Snooze(1), "snoozed"),
        (CANCELLED, asyncio.CancelledError(), "cancelled"),
        (CANCELLED, JobCancelled(), "cancelled"),
        (CANCELLED, Odd(), "failed"),
        (CANCELLED, Snooze(1), "snoozed"),
        (TIMED_OUT, asyncio.CancelledError(), "timed_out"),
        (TIMED_OUT, Odd(), "timed_out"),
        (TIMED_OUT, Snooze(1), "timed_out"),
        (INTERRUPTED, asyncio.CancelledError(), "interrupted"),
        (INTERRUPTED, Odd(), "interrupted"),
        (INTERRUPTED, Snooze(1), "snoozed"),
        (INTERRUPTED, PermanentError(), "failed"),
        (LOST, Odd(), "nothing"),
    ],
)
def test_a_handler_that_raised(stop: Stop | None, error: BaseException, expected: str) -> None:
    assert kind(outcome.raised(KEY, stop, error, 0.5)) == expected


@pytest.mark.parametrize(
    ("stop", "expected", "begun"),
    [
        (CANCELLED, "cancelled", "cancelled"),
        (TIMED_OUT, "timed_out", "interrupted"),
        (INTERRUPTED, "interrupted", "interrupted"),
        (LOST, "nothing", "nothing"),
    ],
)
def test_a_handler_that_did_not_stop_or_never_began(stop: Stop, expected: str, begun: str) -> None:
    report = outcome.abandoned(KEY, stop, 1.0)
    assert kind(report) == expected
    if expected == "cancelled":
        assert report is not None
        assert report.cancelled.abandoned
    assert kind(outcome.not_begun(KEY, stop)) == begun


@pytest.mark.parametrize(
    ("error", "retryable"),
    [
        (Odd("x"), True),
        (RetryLater("5s"), True),
        (PermanentError("x"), False),
        (InvalidArguments("month", "is required"), False),
    ],
)
def test_only_what_is_called_permanent_is_not_retried(error: Exception, retryable: bool) -> None:
    report = outcome.raised(KEY, None, error, 0.5)
    assert report is not None
    assert report.failed.error.retryable is retryable
    assert report.failed.error.type == type(error).__name__


def test_waits_travel() -> None:
    later = outcome.raised(KEY, None, RetryLater("1.5s"), 0.5)
    snoozed = outcome.raised(KEY, None, Snooze("2m"), 0.5)
    assert later is not None
    assert snoozed is not None
    assert later.failed.retry_after.ToMilliseconds() == 1500
    assert snoozed.snoozed.delay.ToSeconds() == 120


def test_a_timeout_says_how_long_and_where_the_handler_was() -> None:
    try:
        raise asyncio.CancelledError
    except asyncio.CancelledError as error:
        report = outcome.raised(KEY, TIMED_OUT, error, 10.0)
    assert report is not None
    told = report.failed.error
    assert (told.type, told.retryable) == ("TimeoutError", True)
    assert told.message == "it ran longer than its timeout: 10 s"
    assert "test_a_timeout_says" in told.traceback


@pytest.mark.parametrize(
    ("result", "type_", "text"),
    [
        (object(), "NotSerializable", "the result (object) cannot be written as JSON"),
        ("x" * LIMIT, "PayloadTooLarge", "the limit is 1048576"),
        ("\ud800", "NotSerializable", "the result (str)"),
    ],
)
def test_a_result_that_cannot_be_stored_is_no_reason_to_try_again(
    result: object, type_: str, text: str
) -> None:
    report = outcome.returned(KEY, None, result, 0.5, LIMIT)
    assert report is not None
    error = report.failed.error
    assert (error.type, error.retryable, text in error.message) == (type_, False, True), error


def test_a_result_that_holds_itself_is_refused() -> None:
    loop: list[Any] = []
    loop.append(loop)
    report = outcome.returned(KEY, None, loop, 0.5, LIMIT)
    assert report is not None
    assert "nested too deeply" in report.failed.error.message


class BadText(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no")


def test_an_error_that_cannot_be_printed_is_still_told() -> None:
    error = job_error(BadText())
    assert error.type == "BadText"
    assert "cannot be read: RuntimeError" in error.message


def _recurse(depth: int) -> None:
    if depth:
        _recurse(depth - 1)
    raise ValueError("x" * 5_000_000)


def test_a_traceback_of_megabytes_is_cut() -> None:
    try:
        _recurse(500)
    except ValueError as caught:
        error = job_error(caught)
    assert len(error.message) == MESSAGE_CHARACTERS
    assert len(error.traceback.encode()) <= TRACEBACK_BYTES
    assert error.traceback.startswith("Traceback")


@given(st.text(st.characters(codec=None)), st.text(st.characters(codec=None), max_size=300))
def test_any_error_can_be_sent(text: str, name: str) -> None:
    error = type("E" + "".join(c for c in name if c != "\0" and c.isprintable()), (Exception,), {})
    report = outcome.raised(KEY, None, error(text), 0.0)
    assert report is not None
    assert Report.FromString(report.SerializeToString()) == report
    assert len(report.failed.error.type) <= 200


def test_a_type_that_nobody_knows_comes_back_later() -> None:
    report = outcome.unknown_type(KEY)
    assert kind(report) == "snoozed"
    assert report.snoozed.delay.ToSeconds() == outcome.UNKNOWN_TYPE_DELAY_SECONDS
