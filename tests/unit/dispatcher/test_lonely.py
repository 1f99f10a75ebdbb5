"""Suspects that are to have a runner for themselves."""

from __future__ import annotations

from dataclasses import replace
from uuid import UUID

from hypothesis import given
from hypothesis import strategies as st

from jobmesh.ids import new_id
from jobmesh_dispatcher.claiming import Candidate, Seat, decide, idle_seat, set_aside

MANY = 8


def seat(running: int, *, aside: bool = False, types: str = "xy") -> Seat:
    return Seat(
        session_id=UUID(new_id()),
        attachment=UUID(new_id()),
        runner_id="r",
        namespace="default",
        types=frozenset(types),
        queues=None,
        slots=4,
        free=MANY - running,
        running=running,
        set_aside=aside,
    )


def job(*, alone: bool, kind: str = "x") -> Candidate:
    return Candidate(UUID(new_id()), "default", "q", kind, 4, alone)


seats = st.lists(
    st.builds(
        lambda running, aside, types: seat(running, aside=aside, types=types),
        st.integers(0, 3),
        st.booleans(),
        st.sampled_from(["x", "y", "xy"]),
    ),
    max_size=4,
)
jobs = st.lists(
    st.builds(
        lambda alone, kind: job(alone=alone, kind=kind), st.booleans(), st.sampled_from("xy")
    ),
    max_size=12,
)


@given(jobs, seats)
def test_a_suspect_never_gets_a_neighbour(jobs: list[Candidate], seats: list[Seat]) -> None:
    before = [replace(s) for s in seats]
    decision = decide(jobs, {}, seats)
    assert len(decision.claims) + len(decision.parks) == len(jobs)
    for earlier in before:
        given_to = [j for j, s, _ in decision.claims if s.session_id == earlier.session_id]
        if any(j.alone for j in given_to):
            assert earlier.running == 0
            assert len(given_to) == 1
        elif earlier.set_aside:
            assert not given_to


@given(jobs, seats)
def test_an_idle_runner_that_fits_takes_a_suspect(jobs: list[Candidate], seats: list[Seat]) -> None:
    decision = decide(jobs, {}, seats)
    for parked, _ in decision.parks:
        if parked.alone:  # whoever fits has something by now
            assert idle_seat(parked, seats) is None


@given(jobs, seats)
def test_every_suspect_that_waits_has_a_runner_set_aside_while_there_are_any(
    jobs: list[Candidate], seats: list[Seat]
) -> None:
    waiting = [j for j in jobs if j.alone]
    chosen = set_aside(waiting, seats)
    assert len(chosen) <= len(waiting)
    assert chosen <= {s.session_id for s in seats}
    for left_over in (s for s in seats if s.session_id not in chosen):
        fitting = [j for j in waiting if left_over.fits(j)]
        assert len(fitting) <= len(chosen)  # each of them has another one


def test_waiting_for_a_runner_that_empties_a_suspect_is_given_it_in_the_end() -> None:
    """However many ordinary jobs come: the one that is set aside takes none of them."""
    runner, suspect = seat(3), job(alone=True)
    for running in (3, 2, 1):
        runner = replace(runner, running=running, free=MANY - running, set_aside=False)
        runner.set_aside = runner.session_id in set_aside([suspect], [runner])
        decision = decide([job(alone=False), suspect, job(alone=False)], {}, [runner])
        assert decision.claims == []
    runner = replace(runner, running=0, free=MANY)
    decision = decide([job(alone=False), suspect], {}, [runner])
    assert [claimed for claimed, _, _ in decision.claims] == [suspect]


def test_the_least_loaded_runner_is_set_aside() -> None:
    busy, calm = seat(3), seat(1)
    assert set_aside([job(alone=True)], [busy, calm]) == {calm.session_id}
    assert set_aside([job(alone=True), job(alone=True)], [busy, calm]) == {
        calm.session_id,
        busy.session_id,
    }
