"""How many wake-ups are asked for, and from where."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from jobmesh_dispatcher.pull_plan import Source, plan

sources_strategy = st.lists(
    st.builds(Source, st.integers(0, 9), st.integers(0, 50), st.booleans()), max_size=8
)


@given(st.integers(-5, 60), sources_strategy)
def test_sized_pulls_never_ask_for_more_than_there_is_room(
    room: int, sources: list[Source]
) -> None:
    pulls = plan(room, sources)
    sized = [pull for pull in pulls if not pull.wait]
    assert sum(pull.batch for pull in sized) <= max(0, room)
    assert all(pull.batch <= sources[pull.source].backlog for pull in sized)
    assert all(pull.batch == 1 for pull in pulls if pull.wait)
    assert not any(sources[pull.source].asked for pull in pulls)


@given(st.integers(1, 60), sources_strategy)
def test_room_is_used_as_far_as_anything_waits(room: int, sources: list[Source]) -> None:
    waiting = sum(s.backlog for s in sources if not s.asked)
    asked = sum(pull.batch for pull in plan(room, sources) if not pull.wait)
    assert asked == min(room, waiting)


@given(st.integers(1, 3), st.lists(st.integers(0, 9), min_size=2, max_size=4, unique=True))
def test_the_lowest_priority_moves_and_shares_follow_the_weights(
    room: int, priorities: list[int]
) -> None:
    sources = [Source(priority, backlog=10_000) for priority in priorities]
    got: Counter[int] = Counter()
    rounds = 2000
    for _ in range(rounds):
        for pull in plan(room, sources):
            got[sources[pull.source].priority] += pull.batch
    total = sum(s.weight for s in sources)
    for source in sources:
        fair = rounds * room * source.weight / total
        assert abs(got[source.priority] - fair) <= room * len(sources) + 1
