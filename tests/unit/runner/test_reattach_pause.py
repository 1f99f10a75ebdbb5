from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from jobmesh_runner.reattach_pause import MOST_SECONDS, SPREAD_SECONDS, reattach_pause

shares = st.floats(0, 1, exclude_max=True)


@given(shares)
def test_the_first_comes_nearly_at_once(u: float) -> None:
    assert 0 <= reattach_pause(0, u) <= SPREAD_SECONDS


@given(st.integers(1, 10**6), shares)
def test_it_grows_up_to_the_grace_of_a_broken_stream(failures: int, u: float) -> None:
    pause = reattach_pause(failures, u)
    assert 0 < pause <= MOST_SECONDS
    assert reattach_pause(failures + 1, u) >= pause
