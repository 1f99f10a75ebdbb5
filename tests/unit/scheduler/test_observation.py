"""Whose counter stood still: never said too early, said in time, begun anew after a gap."""

from __future__ import annotations

from bisect import bisect_right
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobmesh_scheduler.observation import Observation

LEASE = 2.0
GAP = LEASE / 4

durations = st.floats(min_value=0.0, max_value=1.5, allow_nan=False)


class Read:
    """A read sent, executed by the database and answered at three moments."""

    def __init__(self, sent: float, at: float, received: float) -> None:
        self.sent = sent
        self.at = at
        self.received = received


@st.composite
def reads(draw: st.DrawFn) -> list[Read]:
    found = []
    now = 0.0
    for pause, there, back in draw(
        st.lists(st.tuples(durations, durations, durations), min_size=1, max_size=30)
    ):
        sent = now + pause
        now = sent + there / 4 + back / 4
        found.append(Read(sent, sent + there / 4, now))
    return found


@st.composite
def renewals(draw: st.DrawFn) -> list[float]:
    moments, now = [], 0.0
    for pause in draw(st.lists(durations, max_size=40)):
        now += pause
        moments.append(now)
    return moments


@given(reads(), renewals())
def test_silent_means_that_it_stood_still_for_the_lease(
    observed: list[Read], renewed: list[float]
) -> None:
    observation: Observation[str, int] = Observation(LEASE)
    for read in observed:
        counter = bisect_right(renewed, read.at)
        if observation.take_in({"a": counter}, sent=read.sent, received=read.received):
            last_renewal = renewed[counter - 1] if counter else float("-inf")
            assert read.at - last_renewal >= LEASE


@given(reads())
def test_a_gap_begins_anew(observed: list[Read]) -> None:
    """A key is silent only if every read within the lease before was close to the one before it."""
    observation: Observation[str, int] = Observation(LEASE)
    began = observed[0].received
    for before, read in pairwise([observed[0], *observed]):
        if read is not before and read.received - before.sent > GAP:
            began = read.received
        silent = observation.take_in({"a": 7}, sent=read.sent, received=read.received)
        assert bool(silent) == (read.sent - began >= LEASE)


@given(st.floats(min_value=0.01, max_value=GAP * 0.9), st.integers(0, 1000))
def test_what_stands_still_is_noticed_at_the_first_read_after_the_lease(
    interval: float, counter: int
) -> None:
    observation: Observation[str, int] = Observation(LEASE)
    now = 100.0
    while not observation.take_in({"a": counter}, sent=now, received=now):
        now += interval
    assert now - 100.0 == pytest.approx(LEASE, abs=interval * 1.01)


@given(st.dictionaries(st.integers(0, 20), st.booleans(), min_size=1))
def test_each_key_is_judged_by_itself(moves: dict[int, bool]) -> None:
    observation: Observation[int, int] = Observation(LEASE)
    silent: list[int] = []
    for turn in range(12):
        marks = {key: turn if moving else 0 for key, moving in moves.items()}
        now = turn * 0.2
        silent = observation.take_in(marks, sent=now, received=now)
    assert set(silent) == {key for key, moving in moves.items() if not moving}


def test_a_failed_read_begins_anew() -> None:
    observation: Observation[str, int] = Observation(LEASE)
    for turn in range(10):
        assert not observation.take_in({"a": 1}, sent=turn * 0.2, received=turn * 0.2)
    observation.begin_anew()
    assert not observation.take_in({"a": 1}, sent=2.0, received=2.0)
    assert not observation.take_in({"a": 1}, sent=2.2, received=2.2)


def test_a_key_that_was_away_is_new_when_it_returns() -> None:
    observation: Observation[str, int] = Observation(LEASE)
    for turn in range(20):
        marks = {} if turn == 9 else {"a": 1}
        silent = observation.take_in(marks, sent=turn * 0.2, received=turn * 0.2)
        assert not silent
    assert observation.take_in({"a": 1}, sent=4.0, received=4.0) == ["a"]


def test_a_lease_is_longer_than_nothing() -> None:
    with pytest.raises(ValueError, match="longer than nothing"):
        Observation[str, int](0.0)
