"""Log lines: always one line of valid JSON, with their context, and never in the loop's way."""

from __future__ import annotations

import json
import logging
import os
import subprocess
import sys
import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobmesh.server import logs
from jobmesh.server.config import ConfigError
from jobmesh.server.logs import JsonFormatter, TextFormatter, ThreadedHandler, job_context


def record(message: str = "hello", *args: object, **extra: object) -> logging.LogRecord:
    made = logging.LogRecord("jobmesh.test", logging.INFO, "f", 1, message, args, None)
    vars(made).update(extra)
    return made


def line(made: logging.LogRecord) -> dict[str, Any]:
    fields: dict[str, Any] = json.loads(JsonFormatter("gateway").format(made))
    return fields


def test_a_line_says_when_who_and_what() -> None:
    fields = line(record("took %d ms", 5))
    assert fields["message"] == "took 5 ms"
    assert (fields["level"], fields["service"], fields["logger"]) == (
        "INFO",
        "gateway",
        "jobmesh.test",
    )
    assert fields["time"].endswith("Z")
    assert "trace_id" not in fields


def test_the_time_is_utc_in_milliseconds() -> None:
    made = record()
    made.created = 1_700_000_000.123
    assert line(made)["time"] == "2023-11-14T22:13:20.123Z"


def test_the_job_of_the_context_and_extras_are_fields() -> None:
    with job_context("0199"):
        fields = line(record(queue="reports", depth=3, odd=object))
    assert (fields["job_id"], fields["queue"], fields["depth"]) == ("0199", "reports", 3)
    assert fields["odd"] == str(object)
    assert "job_id" not in line(record())


def test_an_error_brings_its_traceback() -> None:
    made = record()
    try:
        raise ValueError("x")
    except ValueError:
        made.exc_info = sys.exc_info()
    assert "ValueError: x" in line(made)["error"]


@given(st.text(), st.dictionaries(st.text(st.characters(exclude_categories=["Cs"])), st.text()))
def test_any_text_gives_one_line_of_json(message: str, extra: dict[str, str]) -> None:
    fields = {f"x_{key}": value for key, value in extra.items()}
    made = record("%s", message, **fields)
    text = JsonFormatter("s").format(made)
    assert "\n" not in text
    assert json.loads(text)["logger"] == "jobmesh.test"


def test_long_messages_are_cut() -> None:
    assert len(line(record("x" * 1_000_000))["message"]) <= logs.MAX_TEXT + 1


def test_text_for_people_has_the_context_at_its_end() -> None:
    with job_context("0199"):
        text = TextFormatter("gateway").format(record("hi", queue="q"))
    assert text.endswith("INFO    gateway hi  [job_id=0199 queue=q]")


def test_a_reader_that_stands_still_stops_nobody() -> None:
    reader, writer = os.pipe()
    handler = ThreadedHandler(writer, max_queued=10)
    handler.setFormatter(JsonFormatter("s"))
    began = time.monotonic()
    for _ in range(2000):
        handler.emit(record("x" * 1000))
    assert time.monotonic() - began < 5
    received = b""
    while b"log lines were dropped" not in received:
        received += os.read(reader, 1 << 20)
    os.close(reader)
    handler.close()
    os.close(writer)
    *whole, _ = received.split(b"\n")
    assert all(json.loads(text)["service"] == "s" for text in whole)


def test_close_writes_what_is_queued() -> None:
    reader, writer = os.pipe()
    handler = ThreadedHandler(writer)
    handler.setFormatter(TextFormatter("s"))
    for n in range(100):
        handler.emit(record(f"line {n}"))
    handler.close()
    handler.close()
    os.close(writer)
    with os.fdopen(reader) as lines:
        assert len(lines.readlines()) == 100


@pytest.mark.parametrize(("level", "style"), [("LOUD", ""), ("", "xml")])
def test_bad_settings_are_refused(level: str, style: str) -> None:
    with pytest.raises(ConfigError, match="JOBMESH_LOG_"):
        logs.configure("s", level=level, format=style)


HANG_UP = "ExecuteBatchError raised in core by servicer method [/jobmesh.v1.JobService/WatchJob]"


@pytest.mark.parametrize(("level", "logged"), [("INFO", []), ("DEBUG", [HANG_UP])])
def test_who_hangs_up_on_a_stream_is_no_error(level: str, logged: list[str]) -> None:
    said = f"""if True:
        import logging
        from jobmesh.server import logs
        logs.configure("s", level={level!r})
        log = logging.getLogger("grpc._cython.cygrpc")
        log.error({HANG_UP!r})
        log.error("something else")
    """
    done = subprocess.run([sys.executable, "-c", said], stderr=subprocess.PIPE, check=True)
    told = [json.loads(text)["message"] for text in done.stderr.splitlines()]
    assert told == [*logged, "something else"]
