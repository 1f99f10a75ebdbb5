from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from jobmesh_runner.prefetch import AHEAD_SECONDS, TICK_SECONDS, Prefetch


def run(prefetch: Prefetch, per_second: float, seconds: float) -> None:
    due = 0.0
    for _ in range(round(seconds / TICK_SECONDS)):
        due += per_second * TICK_SECONDS
        while due >= 1:
            due -= 1
            prefetch.ended()
        prefetch.tick(TICK_SECONDS)


def test_long_jobs_are_not_taken_ahead() -> None:
    prefetch = Prefetch(500)
    run(prefetch, per_second=0.9 / AHEAD_SECONDS, seconds=5)
    assert prefetch.value == 0


def test_short_jobs_are_taken_ahead_as_fast_as_they_are_run() -> None:
    prefetch = Prefetch(500)
    run(prefetch, per_second=1000, seconds=1)
    assert 0.75 <= prefetch.value / (1000 * AHEAD_SECONDS) <= 1


def test_it_has_a_limit_and_goes_back_once_nothing_is_run() -> None:
    prefetch = Prefetch(500)
    run(prefetch, per_second=20_000, seconds=1)
    assert prefetch.value == 500
    assert prefetch.is_moving
    run(prefetch, per_second=0, seconds=3)
    assert prefetch.value == 0
    assert not prefetch.is_moving


@given(st.integers(0, 1000), st.lists(st.tuples(st.integers(0, 3000), st.floats(0, 2))))
def test_it_stays_within_its_bounds_and_tells_of_each_change(
    most: int, ticks: list[tuple[int, float]]
) -> None:
    prefetch = Prefetch(most)
    for ended, seconds in ticks:
        before = prefetch.value
        for _ in range(ended):
            prefetch.ended()
        assert prefetch.tick(seconds) == (prefetch.value != before)
        assert 0 <= prefetch.value <= most
