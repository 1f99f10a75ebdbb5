"""Whom to suspect when a runner is lost."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from uuid import UUID

from hypothesis import given
from hypothesis import strategies as st

from jobmesh.ids import new_id
from jobmesh_dispatcher.suspicion import Passenger, blame

NOON = datetime(2026, 11, 30, 12, tzinfo=UTC)


def passenger(started: bool = True, suspect: bool = False, second: int = 0) -> Passenger:
    return Passenger(UUID(new_id()), started, suspect, NOON + timedelta(seconds=second))


boards = st.lists(st.builds(passenger, st.booleans(), st.booleans(), st.integers(0, 5)), max_size=8)


@given(boards, st.integers(1, 10))
def test_only_who_may_have_done_it_is_suspected_and_only_of_those_is_one_charged(
    board: list[Passenger], slots: int
) -> None:
    guilt = blame(board, slots)
    started = {p.job_id for p in board if p.started}
    assert guilt.charged <= started <= guilt.suspected
    # As many as ran at once, at the most.
    assert len(guilt.suspected) <= max(slots, len(started))
    ordinary = {p.job_id for p in board if not p.suspect}
    if guilt.suspected & ordinary:
        assert guilt.charged == started & ordinary
    else:
        assert guilt.charged == started


@given(boards, st.integers(1, 10))
def test_of_those_that_waited_the_first_are_suspected(board: list[Passenger], slots: int) -> None:
    guilt = blame(board, slots)
    waiting = [p for p in board if not p.started]
    inside = [p.claim_time for p in waiting if p.job_id in guilt.suspected]
    outside = [p.claim_time for p in waiting if p.job_id not in guilt.suspected]
    assert not inside or not outside or max(inside) <= min(outside)


def test_innocents_in_processes_of_their_own_are_not_charged_for_a_neighbour() -> None:
    innocent, ordinary = passenger(suspect=True), passenger()
    guilt = blame([innocent, ordinary], 4)
    assert guilt.charged == {ordinary.job_id}
    assert innocent.job_id in guilt.suspected


def test_a_suspect_that_was_alone_is_charged() -> None:
    alone = passenger(suspect=True)
    assert blame([alone], 4).charged == {alone.job_id}
