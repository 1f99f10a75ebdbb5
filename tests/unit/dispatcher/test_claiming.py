"""The decision of a claim: who gets what, and what is held."""

from __future__ import annotations

from collections import Counter
from uuid import UUID

from hypothesis import given
from hypothesis import strategies as st

from jobmesh.ids import new_id
from jobmesh_dispatcher.claiming import (
    Candidate,
    QueueLimit,
    Seat,
    decide,
    spread_out,
    within_bytes,
)

QUEUES = ["a", "b"]
TYPES = ["x", "y", "z"]


def uid() -> UUID:
    return UUID(new_id())


def seat(types: set[str], free: int, queues: set[str] | None = None, running: int = 0) -> Seat:
    return Seat(
        session_id=uid(),
        attachment=uid(),
        runner_id="r",
        namespace="default",
        types=frozenset(types),
        queues=None if queues is None else frozenset(queues),
        slots=4,
        free=free,
        running=running,
    )


def candidate(type: str = "x", queue: str = "a", namespace: str = "default") -> Candidate:  # noqa: A002
    return Candidate(uid(), namespace, queue, type, 4)


seats_strategy = st.lists(
    st.builds(
        seat,
        st.sets(st.sampled_from(TYPES), min_size=1),
        st.integers(0, 3),
        st.none() | st.sets(st.sampled_from(QUEUES), min_size=1),
        st.integers(0, 4),
    ),
    max_size=4,
)
candidates_strategy = st.lists(
    st.builds(candidate, st.sampled_from(TYPES), st.sampled_from(QUEUES)), max_size=20
)
limits_strategy = st.dictionaries(
    st.sampled_from([("default", q) for q in QUEUES]),
    st.builds(QueueLimit, st.booleans(), st.none() | st.integers(-1, 5)),
)


@given(candidates_strategy, limits_strategy, seats_strategy)
def test_each_candidate_is_claimed_or_parked_once_and_no_bound_is_passed(
    candidates: list[Candidate],
    limits: dict[tuple[str, str], QueueLimit],
    seats: list[Seat],
) -> None:
    room = {s.session_id: s.free for s in seats}
    decision = decide(candidates, limits, seats)
    seen = [job.job_id for job, _, _ in decision.claims] + [job.job_id for job, _ in decision.parks]
    assert sorted(seen) == sorted(job.job_id for job in candidates)
    given_to = Counter(s.session_id for _, s, _ in decision.claims)
    assert all(given_to[session] <= free for session, free in room.items())
    taken = Counter((job.namespace, job.queue) for job, _, _ in decision.claims)
    for name, number in taken.items():
        limit = limits.get(name, QueueLimit(False, None))
        assert not limit.paused
        assert limit.free is None or number <= limit.free
    assert all(s.fits(job) for job, s, _ in decision.claims)
    assert all(
        counted
        == (limits.get((job.namespace, job.queue), QueueLimit(False, None)).free is not None)
        for job, _, counted in decision.claims
    )


@given(candidates_strategy, limits_strategy, seats_strategy)
def test_nothing_is_parked_that_could_run(
    candidates: list[Candidate],
    limits: dict[tuple[str, str], QueueLimit],
    seats: list[Seat],
) -> None:
    decision = decide(candidates, limits, seats)
    for job, reason in decision.parks:
        if reason == "NO_RUNNER":  # whoever fits is full by now: rooms only shrink
            assert not any(s.free > 0 and s.fits(job) for s in seats)


def test_the_least_loaded_runner_is_given_the_job() -> None:
    busy, idle = seat({"x"}, free=3, running=3), seat({"x"}, free=1, running=0)
    decision = decide([candidate()], {}, [busy, idle])
    assert decision.claims[0][1] is idle


def test_a_runner_of_another_namespace_is_no_runner() -> None:
    decision = decide([candidate(namespace="other")], {}, [seat({"x"}, free=3)])
    assert [reason for _, reason in decision.parks] == ["NO_RUNNER"]


alike_strategy = st.lists(
    st.builds(seat, st.just({"x"}), st.integers(0, 8), running=st.integers(0, 4)), max_size=4
)


@given(alike_strategy, st.integers(1, 20))
def test_what_is_dealt_unseen_is_what_would_be_decided(seats: list[Seat], jobs: int) -> None:
    dealt = spread_out(jobs, seats)
    assert bool(dealt) == (sum(s.free for s in seats) >= jobs)
    decision = decide([candidate() for _ in range(jobs)], {}, seats)
    if dealt:
        assert [s.session_id for s in dealt] == [s.session_id for _, s, _ in decision.claims]


@given(seats_strategy, st.integers(1, 10))
def test_nothing_is_dealt_unseen_to_runners_that_differ(seats: list[Seat], jobs: int) -> None:
    before = [(s.free, s.running) for s in seats]
    kinds = {(s.types, s.queues) for s in seats if s.free}
    assert len(kinds) == 1 or spread_out(jobs, seats) == []
    assert [(s.free, s.running) for s in seats] == before


def test_a_runner_that_is_set_aside_is_dealt_nothing() -> None:
    aside, other = seat({"x"}, 4), seat({"x"}, 1)
    aside.set_aside = True
    assert spread_out(1, [aside, other]) == [other]
    assert spread_out(2, [aside, other]) == []


@given(st.lists(st.integers(0, 1000)), st.integers(1, 3000))
def test_a_claim_ends_with_what_reaches_its_size(sizes: list[int], limit: int) -> None:
    taken = within_bytes(sizes, limit)
    assert sum(sizes[: max(0, taken - 1)]) < limit
    assert taken == len(sizes) or sum(sizes[:taken]) >= limit
    assert taken > 0 or not sizes
