from __future__ import annotations

import itertools

from hypothesis import given
from hypothesis import strategies as st

from jobmesh_runner.progress_pace import INTERVAL_SECONDS, ProgressPace
from tests.unit.runner.claims_of import attempt


def test_the_first_goes_at_once_and_the_next_waits() -> None:
    pace, claim = ProgressPace(), attempt()
    pace.add(claim, 5.0)
    assert pace.take(5.0) == [claim]
    pace.add(claim, 5.01)
    assert pace.take(5.09) == []
    assert pace.next_due() == 5.0 + INTERVAL_SECONDS
    assert pace.take(5.0 + INTERVAL_SECONDS) == [claim]
    assert pace.next_due() is None


@given(st.lists(st.tuples(st.integers(0, 2), st.floats(0, 0.2)), max_size=60))
def test_each_keeps_a_distance_and_none_is_forgotten(steps: list[tuple[int, float]]) -> None:
    pace, claims = ProgressPace(), [attempt(n) for n in range(3)]
    waiting: set[int] = set()
    sent: dict[int, list[float]] = {0: [], 1: [], 2: []}
    now = 0.0
    for number, seconds in steps:
        now += seconds
        if number not in waiting:
            waiting.add(number)
            pace.add(claims[number], now)
        for claim in pace.take(now):
            waiting.discard(claims.index(claim))
            sent[claims.index(claim)].append(now)
    for claim in pace.take(now + 1.0):
        waiting.discard(claims.index(claim))
    assert waiting == set()
    for times in sent.values():
        gaps = [b - a for a, b in itertools.pairwise(times)]
        assert all(gap >= INTERVAL_SECONDS - 1e-9 for gap in gaps)
