"""Outages: what is made up for is what was declared, and comes spread."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jobmesh.schedules.catchup import BURST, GRACE, MOST_AT_ONCE, Catchup, Plan, plan
from jobmesh.schedules.timetable import EPOCH, Interval, Timetable

WEEK = timedelta(days=7)
NOW = datetime(2026, 6, 1, 12, 0, 30, tzinfo=UTC)


def every(seconds: int) -> Timetable:
    return Timetable([Interval(timedelta(seconds=seconds), EPOCH)])


def catch_up(
    table: Timetable,
    cursor: datetime,
    now: datetime,
    policy: Catchup,
    window: timedelta = WEEK,
) -> tuple[list[Plan], datetime]:
    """Plans one after the other, at the times that they ask for, until nothing is left."""
    plans = []
    while True:
        made = plan(table, cursor, now, policy, window)
        plans.append(made)
        assert made.cursor >= cursor
        cursor = made.cursor
        if made.again is None:
            return plans, now
        now = max(now, made.again)


def fired(plans: list[Plan]) -> list[datetime]:
    return [fire.time for made in plans for fire in made.fire]


@pytest.mark.parametrize("outage", [timedelta(hours=2), timedelta(days=2)])
@pytest.mark.parametrize(
    ("policy", "window", "expected"),
    [
        (Catchup.NONE, WEEK, 0),
        (Catchup.ONE, WEEK, 1),
        (Catchup.ALL, WEEK, None),
        (Catchup.ALL, timedelta(hours=1), 58),
    ],
)
def test_an_outage_makes_up_for_as_many_as_declared(
    outage: timedelta, policy: Catchup, window: timedelta, expected: int | None
) -> None:
    table = every(60)
    cursor = NOW - outage
    plans, _ = catch_up(table, cursor, NOW, policy, window)
    late = [fire.time for made in plans for fire in made.fire if fire.late]
    on_time = [fire.time for made in plans for fire in made.fire if not fire.late]
    missed = sum(made.missed.count for made in plans if made.missed)
    minutes = int(outage.total_seconds() / 60)
    if expected is not None:
        assert abs(len(late) - expected) <= (1 if policy is Catchup.ALL else 0)
    else:
        assert len(late) + len(on_time) - _meanwhile(plans) == minutes
    assert late == sorted(set(late))
    assert all(len(made.fire) <= BURST for made in plans if made.fire and made.fire[0].late)
    if minutes < 1000:
        assert missed + len(late) + len(on_time) - _meanwhile(plans) == minutes


def _meanwhile(plans: list[Plan]) -> int:
    """Firings whose time came while the others were made up for."""
    return sum(fire.time > NOW for made in plans for fire in made.fire)


def test_a_burst_is_spread() -> None:
    table = every(60)
    plans, end = catch_up(table, NOW - timedelta(days=2), NOW, Catchup.ALL)
    assert len(fired(plans)) >= 2880
    assert end - NOW >= timedelta(seconds=2870 / BURST - 1)


@given(
    st.integers(1, 300),
    st.integers(0, 59),
    st.sampled_from(Catchup),
)
def test_an_election_skips_nothing_whatever_the_policy(
    interval: int, gap: int, policy: Catchup
) -> None:
    table, cursor = every(interval), NOW - timedelta(seconds=gap)
    plans, _ = catch_up(table, cursor, NOW, policy)
    assert fired(plans) == list(table.upcoming(cursor, NOW))
    assert not any(made.missed for made in plans)


@settings(max_examples=60)
@given(
    st.integers(20, 5000),
    st.integers(0, 200_000),
    st.sampled_from(Catchup),
    st.integers(60, 100_000),
)
def test_each_time_is_dealt_with_once(
    interval: int, outage: int, policy: Catchup, window: int
) -> None:
    table, cursor = every(interval), NOW - timedelta(seconds=outage)
    plans, now = catch_up(table, cursor, NOW, policy, timedelta(seconds=window))
    times = fired(plans)
    assert times == sorted(set(times))
    for made in plans:
        if made.missed:
            assert made.missed.first <= made.missed.last < now
            inside = [t for t in times if made.missed.first <= t <= made.missed.last]
            assert inside == []
            assert made.missed.last < NOW - GRACE + timedelta(seconds=outage)
    on_time = list(table.upcoming(max(cursor, NOW - GRACE), NOW))
    assert set(on_time) <= set(times)
    if policy is Catchup.ONE:
        assert sum(fire.late for made in plans for fire in made.fire) <= 1


def test_many_that_are_on_time_come_in_turns_without_a_pause() -> None:
    table = Timetable([Interval(timedelta(milliseconds=100), EPOCH)])
    plans, end = catch_up(table, NOW - timedelta(seconds=59), NOW, Catchup.NONE)
    assert len(fired(plans)) == 590
    assert max(len(made.fire) for made in plans) == MOST_AT_ONCE
    assert end == NOW


def test_two_days_of_every_second_are_written_off_at_once() -> None:
    made = plan(every(1), NOW - timedelta(days=2), NOW, Catchup.NONE, WEEK)
    assert made.missed is not None
    assert made.missed.count == 1000
    assert made.missed.last == NOW - GRACE
    assert len(made.fire) == 60
