"""Wake-ups that come after their jobs were claimed."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobmesh_dispatcher.ahead import KEPT_SECONDS, MOST, Ahead


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    now = [100.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    return now


@given(st.sets(st.integers(1, 40)), st.sets(st.integers(1, 40)), st.randoms(use_true_random=False))
def test_spent_is_what_was_claimed_and_stored_in_whichever_order(
    claimed: set[int], stored: set[int], choice: object
) -> None:
    ahead = Ahead()
    steps = [("claimed", row) for row in claimed] + [("stored", row) for row in stored]
    choice.shuffle(steps)  # type: ignore[attr-defined]
    for step, row in steps:
        if step == "claimed":
            ahead.claimed([row])
        else:
            ahead.stored(row, 1000 + row)
    spent = {seq - 1000 for seq in range(1001, 1041) if ahead.is_spent(seq)}
    assert spent == claimed & stored
    assert not any(ahead.is_spent(seq) for seq in range(1001, 1041))  # each is asked for once


def test_what_is_old_is_forgotten(clock: list[float]) -> None:
    ahead = Ahead()
    ahead.claimed([1])
    clock[0] += KEPT_SECONDS
    ahead.stored(1, 7)
    assert not ahead.is_spent(7)
    ahead.claimed([2])
    ahead.stored(2, 8)
    clock[0] += KEPT_SECONDS
    assert not ahead.is_spent(8)


async def test_a_reconnect_forgets_all() -> None:
    ahead = Ahead()
    ahead.claimed([1])
    ahead.stored(1, 7)
    await ahead.forget()
    assert not ahead.is_spent(7)


def test_it_does_not_grow_beyond_its_limit() -> None:
    ahead = Ahead()
    for row in range(MOST + 10):
        ahead.claimed([row])
        ahead.stored(row, row + 1)
    assert not ahead.is_spent(1)
    assert ahead.is_spent(MOST + 10)
