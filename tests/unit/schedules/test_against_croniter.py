"""The times of expressions beside those of croniter, another library: 30 years, 20 zones.

Where the two differ, and what we decided, is in the last tests.
"""

# Wall-clock times have no zone here.
# ruff: noqa: DTZ001
from __future__ import annotations

import functools
from datetime import UTC, datetime, timedelta
from itertools import islice, pairwise

import pytest
from croniter import croniter
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from jobmesh.schedules.cron import BadCron, Cron
from jobmesh.schedules.zones import ZonedCron, zone

ZONES = (
    *("UTC", "Europe/Berlin", "Europe/London", "Europe/Lisbon", "Europe/Moscow", "Africa/Cairo"),
    *("Africa/Casablanca", "America/New_York", "America/Los_Angeles", "America/St_Johns"),
    *("America/Sao_Paulo", "America/Santiago", "America/Havana", "Asia/Kolkata", "Asia/Tehran"),
    *("Australia/Sydney", "Australia/Lord_Howe", "Pacific/Chatham", "Pacific/Apia"),
    "Antarctica/Troll",
)
FIRST, LAST = datetime(2000, 1, 1), datetime(2030, 1, 1)
MONTHS = ["JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC"]
DAYS = ["SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT"]


def _field(low: int, high: int, names: list[str] | None = None) -> st.SearchStrategy[str]:
    numbers = st.integers(low, high)
    single = numbers.map(str) if names is None else numbers.map(lambda n: names[n - low])
    ends = st.tuples(numbers, numbers).filter(lambda pair: pair[0] < pair[1])
    spans = ends.map(lambda pair: f"{pair[0]}-{pair[1]}")
    steps = st.tuples(spans, st.integers(1, high)).map(lambda pair: f"{pair[0]}/{pair[1]}")
    item = st.one_of(single, spans, steps)
    lists = st.lists(item, min_size=1, max_size=3).map(",".join)
    return st.one_of(st.just("*"), lists)


def _minutes() -> st.SearchStrategy[str]:
    return st.one_of(_field(0, 59), st.integers(1, 59).map(lambda step: f"*/{step}"))


@st.composite
def expressions(draw: st.DrawFn) -> str:
    day = draw(st.one_of(_field(1, 31), st.just("L")))
    weekday = draw(
        st.one_of(
            _field(0, 6, DAYS),
            st.tuples(st.integers(0, 6), st.integers(1, 5)).map(lambda p: f"{p[0]}#{p[1]}"),
        )
    )
    # With two restricted days both libraries take either; L and # are not joined to lists there.
    if "*" not in (day, weekday):
        day, weekday = draw(st.sampled_from([(day, "*"), ("*", weekday)]))
    fields = [draw(_minutes()), draw(_field(0, 23)), day, draw(_field(1, 12, MONTHS)), weekday]
    return " ".join(fields)


def ours(expression: str) -> Cron:
    try:
        return Cron(expression)
    except BadCron:  # a day that no month has
        assume(False)
        raise


walls = st.datetimes(FIRST, LAST)


@settings(max_examples=60)
@given(expressions(), walls)
def test_wall_clock_times_are_the_same(expression: str, start: datetime) -> None:
    cron = ours(expression)
    theirs = croniter(expression, start.replace(microsecond=0), max_years_between_matches=60)
    time: datetime | None = start
    for _ in range(10):
        assert time is not None
        time = cron.next(time)
        assert time == theirs.get_next(datetime)


@settings(max_examples=60)
@given(expressions(), st.sampled_from(ZONES), walls)
def test_in_a_zone_they_are_the_same_while_its_clocks_keep_still(
    expression: str, name: str, start: datetime
) -> None:
    clocks, cron = zone(name), ours(expression)
    begin = start.replace(tzinfo=UTC, microsecond=0)
    fired = list(islice(_firings(ZonedCron(cron, clocks), begin), 10))
    theirs = croniter(expression, begin.astimezone(clocks).replace(tzinfo=None))
    expected = [theirs.get_next(datetime) for _ in fired]
    still = [at for at in fired if _still(name, begin, at)]
    assert [at.astimezone(clocks).replace(tzinfo=None) for at in still] == expected[: len(still)]


@settings(max_examples=40)
@given(expressions(), st.sampled_from(ZONES[1:]), st.integers(2000, 2029), st.integers(0, 99))
def test_around_a_change_each_minute_is_as_declared(
    expression: str, name: str, year: int, number: int
) -> None:
    changes = _changes(name, year)
    assume(changes)
    clocks, cron = zone(name), ours(expression)
    change = changes[number % len(changes)]
    begin, end = change - timedelta(hours=5), change + timedelta(hours=5)
    minutes = [begin + timedelta(minutes=n) for n in range(1, 601)]
    fired = list(_firings(ZonedCron(cron, clocks), begin, end))
    shown = {at: at.astimezone(clocks) for at in minutes}
    matching = [at for at in minutes if croniter.match(expression, _wall(shown[at]))]
    if cron.by_the_hour:
        assert fired == matching
        return
    once = [at for at in matching if not (shown[at].fold and _is_second(shown[at]))]
    assert [at for at in fired if at != change] == [at for at in once if at != change]
    skipped = _skipped(change, clocks)
    due = change in once or any(croniter.match(expression, wall) for wall in skipped)
    assert (change in fired) == due


@given(expressions(), st.sampled_from(ZONES), walls)
@settings(max_examples=40)
def test_times_grow_and_do_not_depend_on_where_one_begins(
    expression: str, name: str, start: datetime
) -> None:
    cron = ZonedCron(ours(expression), zone(name))
    fired = list(islice(_firings(cron, start.replace(tzinfo=UTC)), 20))
    assert all(earlier < later for earlier, later in pairwise(fired))
    for earlier, later in pairwise(fired):
        middle = earlier + (later - earlier) / 2
        assert cron.next_after(middle) == later
        assert cron.next_after(later - timedelta(microseconds=1)) == later


def test_a_step_over_all_days_is_no_restriction_to_us_as_to_debian() -> None:
    # croniter takes either day here. Debian's cron looks at the star: both must match.
    odd_mondays = Cron("0 0 */2 * MON")
    first = odd_mondays.next(datetime(2026, 6, 2))
    assert first == datetime(2026, 6, 15)
    theirs = croniter("0 0 */2 * MON", datetime(2026, 6, 2))
    assert theirs.get_next(datetime) == datetime(2026, 6, 3)


def test_a_range_of_one_is_that_one() -> None:
    # To croniter it goes once around.
    assert Cron("0 0 * * 1-1").next(datetime(2026, 6, 2)) == datetime(2026, 6, 8)
    theirs = croniter("0 0 * * 1-1", datetime(2026, 6, 2))
    assert theirs.get_next(datetime) == datetime(2026, 6, 3)


@pytest.mark.parametrize("expression", ["0 0 15W * *", "0 0 ? * *", "0 0 L-3 * *"])
def test_what_only_the_other_one_knows_is_refused(expression: str) -> None:
    with pytest.raises(BadCron):
        Cron(expression)


def _firings(cron: ZonedCron, begin: datetime, end: datetime | None = None):  # type: ignore[no-untyped-def]
    time = cron.next_after(begin)
    while time is not None and (end is None or time <= end):
        yield time
        time = cron.next_after(time)


def _wall(local: datetime) -> datetime:
    return local.replace(tzinfo=None, fold=0)


def _is_second(local: datetime) -> bool:
    return local.utcoffset() != local.replace(fold=0).utcoffset()


def _skipped(change: datetime, clocks: object) -> list[datetime]:
    """The minutes that clocks jump over at a change."""
    before = (change - timedelta(seconds=1)).astimezone(clocks)  # type: ignore[arg-type]
    wall, after = _wall(before) + timedelta(seconds=1), _wall(change.astimezone(clocks))  # type: ignore[arg-type]
    minutes = max(0, int((after - wall).total_seconds() // 60))
    return [wall + timedelta(minutes=n) for n in range(minutes)]


@functools.cache
def _changes(name: str, year: int) -> list[datetime]:
    """The instants at which the clocks of a zone change in a year, found by looking."""
    clocks, found = zone(name), []
    time = datetime(year, 1, 1, tzinfo=UTC)
    while time.year == year:
        later = time + timedelta(hours=1)
        if time.astimezone(clocks).utcoffset() != later.astimezone(clocks).utcoffset():
            found += [
                at
                for n in range(1, 61)
                if _offset(at := time + timedelta(minutes=n), clocks)
                != _offset(at - timedelta(minutes=1), clocks)
            ]
        time = later
    return found


def _offset(time: datetime, clocks: object) -> timedelta | None:
    return time.astimezone(clocks).utcoffset()  # type: ignore[arg-type]


def _still(name: str, begin: datetime, end: datetime) -> bool:
    if end.year - begin.year > 3:
        return False
    changes = [at for year in range(begin.year, end.year + 1) for at in _changes(name, year)]
    return not any(begin - timedelta(days=1) <= at <= end for at in changes)
