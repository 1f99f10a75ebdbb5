from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobmesh.cli.output import clean, pretty, print_json, print_value
from jobmesh.cli.view_plain import lines, state_line
from jobmesh.cli.words import age, length, progress, why
from jobmesh.client import Change, Ended, JobReason, Progress, StateChanged
from jobmesh.client.info import job_info
from jobmesh.states import State
from jobmesh.v1 import job_pb2

NOW = datetime(2026, 11, 30, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0ms"),
        (0.85, "850ms"),
        (4.2, "4.2s"),
        (185, "3m05s"),
        (7800, "2h10m"),
        (200_000, "2d07h"),
        (timedelta(minutes=1), "1m00s"),
    ],
)
def test_lengths(seconds: float | timedelta, text: str) -> None:
    assert length(seconds) == text


def test_ages() -> None:
    assert age(NOW - timedelta(minutes=3), NOW) == "3m00s"
    assert age(NOW + timedelta(seconds=90), NOW) == "in 1m30s"
    assert age(None) == ""


@pytest.mark.parametrize(
    ("made", "text"),
    [
        (None, ""),
        (Progress(0.4), "40%"),
        (Progress(0.4, "rendering"), "40% rendering"),
        (Progress(0.4, "rendering", 4000, 10_000), "40% rendering (4,000 of 10,000)"),
        (Progress(0, "", 7), "0% (7)"),
    ],
)
def test_progress(made: Progress | None, text: str) -> None:
    assert progress(made) == text


@pytest.mark.parametrize(
    ("change", "text"),
    [
        (Change(1, State.QUEUED, JobReason.UNSPECIFIED, None, 0), "QUEUED"),
        (Change(2, State.RUNNING, JobReason.UNSPECIFIED, None, 1), "RUNNING attempt 1"),
        (Change(3, State.RETRYING, JobReason.FAILED, None, 1), "RETRYING after attempt 1: FAILED"),
        (Change(4, State.SUCCEEDED, JobReason.COMPLETED, None, 2), "SUCCEEDED"),
        (Change(4, State.DEAD, JobReason.TIMED_OUT, None, 2), "DEAD after attempt 2: TIMED_OUT"),
        (Change(4, State.CANCELLED, JobReason.CANCELLED, None, 2), "CANCELLED"),
    ],
)
def test_changes_of_state(change: Change, text: str) -> None:
    assert state_line(change) == text
    assert lines(StateChanged(change))[0].endswith(text)


def test_the_end_is_a_result_or_says_why_there_is_none() -> None:
    done = job_pb2.Job(state=job_pb2.JOB_STATE_SUCCEEDED, result=job_pb2.Payload(data=b"3"))
    assert lines(Ended(job_info(done))) == ["result: 3"]
    error = job_pb2.JobError(type="ValueError", message="no\x1b[2Jmonth", traceback="Traceback…")
    dead = job_info(job_pb2.Job(state=job_pb2.JOB_STATE_DEAD, error=error))
    assert lines(Ended(dead)) == ["error: ValueError: no\\x1b[2Jmonth", "Traceback…"]
    assert why(dead) == "ValueError: no\x1b[2Jmonth"


def test_why_says_what_holds_a_job_or_ended_it() -> None:
    held = job_pb2.Job(state=job_pb2.JOB_STATE_QUEUED, hold_reason=job_pb2.HOLD_REASON_MAX_RUNNING)
    assert why(job_info(held)) == "MAX_RUNNING"
    stopped = job_pb2.Job(state=job_pb2.JOB_STATE_CANCELLED, cancel_reason="not needed")
    assert why(job_info(stopped)) == "not needed"


@given(st.text())
def test_nothing_that_is_shown_controls_the_terminal(text: str) -> None:
    shown = clean(text)
    assert all(char.isprintable() or char in "\n\t" for char in shown)
    if text.isprintable():
        assert shown == text


def test_values_are_shown_as_json() -> None:
    assert pretty({"größe": 1}) == '{\n  "größe": 1\n}'
    assert pretty(b"\x89PNG") == "(4 bytes that are not JSON)"


@given(
    st.recursive(
        st.none() | st.text(), lambda each: st.lists(each) | st.dictionaries(st.text(), each)
    )
)
def test_values_of_a_job_control_no_terminal_and_stay_json(value: object) -> None:
    shown = pretty(value)
    assert all(char.isprintable() or char == "\n" for char in shown)
    assert json.loads(shown) == value


@pytest.mark.parametrize("show", [print_json, print_value])
def test_what_would_control_a_terminal_is_printed_as_escapes(
    show: Callable[[object], None], capsys: pytest.CaptureFixture[str]
) -> None:
    show("a\x9b2J\x7f\u202eb\U000e0001")
    assert capsys.readouterr().out == '"a\\u009b2J\\u007f\\u202eb\\udb40\\udc01"\n'


def test_a_result_that_is_followed_controls_no_terminal() -> None:
    data = json.dumps("\x9b2J\u202e", ensure_ascii=False).encode()
    done = job_pb2.Job(state=job_pb2.JOB_STATE_SUCCEEDED, result=job_pb2.Payload(data=data))
    assert lines(Ended(job_info(done))) == ['result: "\\u009b2J\\u202e"']
