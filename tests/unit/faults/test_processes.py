"""What is read from the logs of processes, and what of it is a violation."""

from __future__ import annotations

import json

import pytest

from tests.faults.checker import Observed, check
from tests.faults.history import History
from tests.faults.processes import FAILED, WITHOUT_DATABASE, Death, Trace, last_word, traces

TRACEBACK = """Traceback (most recent call last):
  File "service.py", line 1, in serve
    raise KeyError(1)
KeyError: 1
"""


def record(level: str, message: str, **fields: str) -> str:
    return json.dumps({"level": level, "message": message, **fields})


def test_the_last_critical_message_is_the_last_word() -> None:
    assert last_word("") == ""
    log = [
        record("CRITICAL", "gateway stops: x failed: y"),
        "I1130 of a library",
        record("CRITICAL", WITHOUT_DATABASE),
        record("INFO", "dispatcher has stopped"),
        record("CRITICAL", "cut off with its")[:-5],
    ]
    assert last_word("\n".join(log)) == WITHOUT_DATABASE


def test_records_with_a_trace_are_told_by_its_last_line() -> None:
    log = [
        record("INFO", "fine"),
        record("ERROR", "no trace, as it was foreseen", error="the disk is full"),
        record("ERROR", "broken", error=TRACEBACK),
        record("ERROR", "both", error=f"  + Exception Group {TRACEBACK}"),
    ]
    assert list(traces("\n".join(log), "gateway")) == [
        Trace("ERROR", "gateway", "broken", "KeyError: 1"),
        Trace("ERROR", "gateway", "both", "KeyError: 1"),
    ]


def test_a_trace_past_the_log_is_found() -> None:
    log = f"{record('INFO', 'up')}\nException in thread mesh:\n{TRACEBACK}{record('INFO', 'x')}\n"
    assert list(traces(log, "runner")) == [
        Trace("CRITICAL", "runner", "not in its log", "KeyError: 1")
    ]


def test_a_crash_of_the_interpreter_is_found() -> None:
    log = "Fatal Python error: Segmentation fault\n\nThread 0x1 (most recent call first):\n"
    (trace,) = traces(log, "runner")
    assert trace.last == "Fatal Python error: Segmentation fault"


DEATHS = [
    (Death("dispatcher-1", FAILED, asked=False, said=WITHOUT_DATABASE), True),
    (Death("dispatcher-1", FAILED, asked=False, said="dispatcher stops: broker failed: x"), False),
    (Death("dispatcher-1", -9, asked=False, said=WITHOUT_DATABASE), False),
    (Death("gateway-1", FAILED, asked=False), False),
    (Death("runner-1", 0, asked=False), False),
    (Death("runner-1", -9, asked=True), False),
]


@pytest.mark.parametrize(("death", "is_foreseen"), DEATHS)
def test_a_process_that_ends_as_nobody_foresaw_is_found(death: Death, is_foreseen: bool) -> None:
    violations = check(Observed(History(), deaths=[death]), [])
    assert [v.rule for v in violations] == ["processes_end_in_order"] * (not is_foreseen)
    assert all(death.process in violation.text for violation in violations)


GIVEN_BACK = (
    "Task exception was never retrieved\nfuture: <Task finished name='Task-5' "
    "coro=<PoolConnectionHolder.release() done> exception=TimeoutError()>"
)
TRACES = [
    (Trace("ERROR", "scheduler", GIVEN_BACK, "TimeoutError"), True),
    (Trace("ERROR", "scheduler", GIVEN_BACK, "KeyError: 1"), False),
    (Trace("CRITICAL", "runner", "not in its log", "KeyError: 1"), False),
    (Trace("WARNING", "dispatcher", "sessions failed 1 time(s)", "BackendUnavailable"), True),
    (Trace("ERROR", "dispatcher", "a round failed; the next one is tried", "KeyError: 1"), False),
    (Trace("CRITICAL", "dispatcher", WITHOUT_DATABASE, "BackendUnavailable"), True),
    (Trace("CRITICAL", "gateway", "gateway could not start: x", "ValueError: x"), False),
]


@pytest.mark.parametrize(("trace", "is_foreseen"), TRACES)
def test_an_error_that_nobody_foresaw_is_found(trace: Trace, is_foreseen: bool) -> None:
    violations = check(Observed(History(), traces={trace: 2}), [])
    assert [v.rule for v in violations] == ["errors_are_foreseen"] * (not is_foreseen)
