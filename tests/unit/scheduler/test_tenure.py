"""A leader believes in itself no longer than the sending of its last renewal allows."""

from __future__ import annotations

import asyncio

from hypothesis import given
from hypothesis import strategies as st

from jobmesh_scheduler.tenure import Tenure


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


@given(st.lists(st.tuples(st.booleans(), st.floats(0.0, 3.0)), max_size=30))
def test_it_holds_for_its_term_after_the_latest_renewal(steps: list[tuple[bool, float]]) -> None:
    clock = Clock()
    tenure = Tenure(3, term=1.75, sent=0.0, clock=clock)
    last = 0.0
    for renews, pause in steps:
        clock.now += pause
        if renews:
            tenure.renewed(clock.now)
            last = clock.now
        assert tenure.valid == (clock.now < last + 1.75)


def test_an_answer_that_came_late_shortens_nothing() -> None:
    clock = Clock()
    tenure = Tenure(1, term=2.0, sent=1.0, clock=clock)
    tenure.renewed(0.5)
    clock.now = 2.9
    assert tenure.valid


async def test_an_end_is_final_and_its_first_reason_counts() -> None:
    tenure = Tenure(1, term=60.0, sent=asyncio.get_running_loop().time())
    waiting = asyncio.create_task(tenure.ended(30.0))
    tenure.end("taken over")
    tenure.end("something else")
    tenure.renewed(asyncio.get_running_loop().time() + 60)
    assert await waiting
    assert not tenure.valid
    assert tenure.ended_because == "taken over"


async def test_waiting_for_the_end_is_bounded() -> None:
    tenure = Tenure(1, term=60.0, sent=asyncio.get_running_loop().time())
    assert not await tenure.ended(0.01)
    assert not await tenure.ended(-1.0)
