"""Several specs, exclusions, beginnings, ends, and jitter."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import islice

from hypothesis import given
from hypothesis import strategies as st

from jobmesh.schedules.cron import Cron
from jobmesh.schedules.jitter import due_time, share
from jobmesh.schedules.timetable import EPOCH, MOST_PASSED_OVER, Interval, Once, Timetable
from jobmesh.schedules.zones import ZonedCron, zone

START = datetime(2026, 1, 1, tzinfo=UTC)


def cron(text: str, name: str = "UTC") -> ZonedCron:
    return ZonedCron(Cron(text), zone(name))


def first(table: Timetable, count: int, after: datetime = START) -> list[str]:
    return [t.strftime("%d %H:%M") for t in islice(table.upcoming(after), count)]


def test_the_times_of_several_are_joined_and_the_same_time_counts_once() -> None:
    table = Timetable([cron("0 6 * * *"), cron("0 */6 * * *"), Once(START + timedelta(hours=7))])
    assert first(table, 5) == ["01 06:00", "01 07:00", "01 12:00", "01 18:00", "02 00:00"]


def test_what_is_excluded_does_not_fire() -> None:
    table = Timetable([cron("0 0 * * *")], [cron("* * * * SAT,SUN"), Once(START + timedelta(5))])
    assert first(table, 3) == ["02 00:00", "05 00:00", "07 00:00"]


def test_an_excluded_cron_goes_by_the_clocks_of_the_zone() -> None:
    table = Timetable([Interval(timedelta(hours=1), EPOCH)], [cron("* 0-11 * * *", "Asia/Tokyo")])
    assert first(table, 2, START - timedelta(hours=1)) == ["01 03:00", "01 04:00"]


def test_an_interval_is_counted_from_its_anchor() -> None:
    anchored = Interval(timedelta(minutes=7), START + timedelta(minutes=1))
    assert first(Timetable([anchored]), 2) == ["01 00:01", "01 00:08"]
    assert anchored.next_after(START - timedelta(minutes=6)) == START + timedelta(minutes=1)


def test_the_beginning_belongs_to_it_and_the_end_does_not() -> None:
    table = Timetable([cron("@daily")], (), START + timedelta(days=1), START + timedelta(days=3))
    assert first(table, 9) == ["02 00:00", "03 00:00"]
    assert table.search(START + timedelta(days=2)) == (None, None)


def test_a_search_that_finds_all_excluded_says_how_far_it_came() -> None:
    table = Timetable([cron("* * * * * *")], [cron("* * * 1-11 *")])
    found = table.search(START)
    assert found.time is None
    assert found.searched_to == START + timedelta(seconds=MOST_PASSED_OVER)


def test_the_latest_is_found_however_long_ago() -> None:
    yearly = Timetable([cron("@yearly")])
    assert yearly.latest(START - timedelta(days=5), START + timedelta(days=300)) == START
    assert yearly.latest(START, START + timedelta(days=300)) is None
    seconds = Timetable([cron("* * * * * *")])
    assert seconds.latest(START, START + timedelta(days=300)) == START + timedelta(days=300)


@given(st.text(max_size=20), st.integers(0, 10**9), st.integers(0, 7200), st.integers(1, 7200))
def test_jitter_is_always_the_same_and_never_reaches_the_next(
    name: str, seconds: int, jitter: int, gap: int
) -> None:
    time = EPOCH + timedelta(seconds=seconds)
    later = time + timedelta(seconds=gap)
    due = due_time(name, time, timedelta(seconds=jitter), later)
    assert due == due_time(name, time, timedelta(seconds=jitter), later)
    assert time <= due <= min(later, time + timedelta(seconds=jitter))


def test_jitter_is_spread_evenly() -> None:
    shares = [share("s", START + timedelta(minutes=n)) for n in range(2000)]
    for low in range(10):
        assert 140 < sum(low / 10 <= s < (low + 1) / 10 for s in shares) < 260
