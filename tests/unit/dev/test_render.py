from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobmesh.dev.render import Renderer

plain = Renderer(["runner-1", "postgres", "nats"], colour=False)


def test_a_structured_line_reads_as_text() -> None:
    line = json.dumps(
        {
            "time": "2026-10-01T12:34:56.789Z",
            "level": "WARNING",
            "service": "runner",
            "logger": "jobmesh.x",
            "message": "slow",
            "queue": "reports",
        }
    )
    assert plain("runner-1", line) == "runner-1 | 12:34:56 WARNING slow queue=reports"


def test_a_traceback_is_indented_below() -> None:
    line = json.dumps({"level": "ERROR", "message": "failed", "error": "Traceback\n  at x"})
    assert plain("runner-1", line) == "runner-1 | ERROR   failed\n    Traceback\n      at x"


@pytest.mark.parametrize("line", ["plain words", "{broken", '{"no": "message"}', "[1]", ""])
def test_anything_else_is_shown_as_it_is(line: str) -> None:
    assert plain("runner-1", line) == f"runner-1 | {line}"


def test_servers_are_shown_only_when_something_is_wrong() -> None:
    assert plain("postgres", "2026 [1] LOG:  checkpoint") is None
    assert plain("postgres", "2026 [1] FATAL:  the database system is starting up") is None
    assert plain("postgres", "2026 [1] ERROR:  no") == "postgres | 2026 [1] ERROR:  no"
    assert plain("nats", "[1] [INF] Server is ready") is None
    assert plain("nats", "[1] [ERR] disk full") == "nats     | [1] [ERR] disk full"


@given(st.text(alphabet=st.characters(exclude_characters="\n")))
def test_a_line_never_commands_the_terminal(line: str) -> None:
    for raw in (line, json.dumps({"message": line, "error": line, "key": line})):
        shown = plain("runner-1", raw)
        assert shown is not None
        assert "\x1b" not in shown
        assert "\r" not in shown


def test_colour_ends_where_it_began() -> None:
    shown = Renderer(["runner-1"], colour=True)("runner-1", '{"message": "x", "level": "ERROR"}')
    assert shown is not None
    assert shown.startswith("\x1b[36m")
    assert shown.endswith("\x1b[0m")
