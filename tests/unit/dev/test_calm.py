from __future__ import annotations

import json

import pytest

from jobmesh.dev.calm import MOST_KEPT, PATIENCE, Calm


def line(level: str = "WARNING", logger: str = "jobmesh_runner.session", text: str = "x") -> str:
    return json.dumps({"level": level, "logger": logger, "message": text})


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def calm(clock: Clock) -> Calm:
    return Calm(clock)


@pytest.mark.parametrize(
    "shown",
    [
        line("INFO"),
        line("ERROR"),
        line(logger="reports.daily"),  # of the user's own code
        line(logger="asyncio"),
        "12:00:00 WARNING still waiting for: runner-1 (see their logs)",
        "2026 [1] WARNING:  out of something",
        '{"level": "WARNING"',
        "",
    ],
)
def test_only_our_services_warnings_are_kept_back(calm: Calm, shown: str) -> None:
    assert calm.pass_on("x", [shown, line()]) == [("x", shown)]


def test_what_is_kept_back_is_forgotten_once_all_serves(calm: Calm) -> None:
    assert calm.pass_on("x", [line(text="before")]) == []
    calm.forget()
    assert calm.rest() == []
    assert calm.pass_on("x", [line(text="after")]) == [("x", line(text="after"))]


def test_a_start_that_takes_long_is_not_thought_to_be_in_order(calm: Calm, clock: Clock) -> None:
    calm.pass_on("x", [line(text="first")])
    clock.now += PATIENCE / 2
    assert calm.overdue() == []
    calm.pass_on("y", [line(text="second")])
    clock.now += PATIENCE / 2
    assert calm.overdue() == [("x", line(text="first")), ("y", line(text="second"))]
    assert calm.overdue() == []
    assert calm.pass_on("x", [line(text="third")]) == [("x", line(text="third"))]


def test_it_keeps_no_more_than_a_screen_could_show(calm: Calm) -> None:
    calm.pass_on("x", [line(text=str(n)) for n in range(2 * MOST_KEPT)])
    assert len(kept := calm.rest()) == MOST_KEPT
    assert kept[-1] == ("x", line(text=str(2 * MOST_KEPT - 1)))
