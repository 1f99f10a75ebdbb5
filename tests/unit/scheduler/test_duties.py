"""Duties are done side by side, each again and again, for exactly one tenure."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

import pytest

from jobmesh.errors import BackendUnavailable
from jobmesh_scheduler.dispatch import LeadershipLost
from jobmesh_scheduler.duties import perform
from jobmesh_scheduler.tenure import Tenure


class Counting:
    """A duty that counts its turns, and does something at each."""

    def __init__(self, name: str, act: Callable[[int], None] = lambda turn: None) -> None:
        self.name = name
        self.turns: list[int] = []  # the epoch of each
        self.reached = asyncio.Event()
        self._act = act

    async def turn(self, epoch: int) -> float:
        self.turns.append(epoch)
        if len(self.turns) == 3:
            self.reached.set()
        self._act(len(self.turns))
        return 0.001


def tenure(term: float = 60.0) -> Tenure:
    return Tenure(7, term=term, sent=time.monotonic())


def refuse(turn: int) -> None:
    if turn == 3:
        raise LeadershipLost(7)


def refuse_one_of_several(turn: int) -> None:
    if turn == 3:
        raise ExceptionGroup("calls", [BackendUnavailable("a dispatcher"), LeadershipLost(7)])


def be_down(turn: int) -> None:
    raise BackendUnavailable("a dispatcher")


@pytest.mark.parametrize("act", [refuse, refuse_one_of_several])
async def test_a_refusal_ends_the_tenure_and_all_duties(act: Callable[[int], None]) -> None:
    refused, other = Counting("refused", act), Counting("other")
    held = tenure()
    async with asyncio.timeout(10):
        await perform([refused, other], held)
    assert not held.valid
    assert "refused" in held.ended_because
    assert refused.turns == [7, 7, 7]
    assert set(other.turns) == {7}


async def test_a_duty_that_fails_keeps_no_other_from_being_done(
    caplog: pytest.LogCaptureFixture,
) -> None:
    failing, other = Counting("failing", be_down), Counting("other")
    held = tenure()
    performing = asyncio.create_task(perform([failing, other], held))
    async with asyncio.timeout(10):
        await other.reached.wait()
        await failing.reached.wait()
    held.end("enough")
    await performing
    assert [line for line in caplog.messages if line.startswith("failing failed 1 time")]


async def test_duties_end_with_the_belief_in_leading() -> None:
    duty = Counting("duty")
    async with asyncio.timeout(10):
        await perform([duty], tenure(term=0.05))
    assert duty.turns


async def test_a_tenure_that_is_over_begins_no_duty() -> None:
    duty = Counting("duty")
    held = tenure()
    held.end("taken over")
    await perform([duty], held)
    assert duty.turns == []


async def test_cancelling_ends_all_duties() -> None:
    duty = Counting("duty")
    performing = asyncio.create_task(perform([duty], tenure()))
    await duty.reached.wait()
    performing.cancel()
    with pytest.raises(asyncio.CancelledError):
        await performing
    done = len(duty.turns)
    await asyncio.sleep(0)
    assert len(duty.turns) == done
