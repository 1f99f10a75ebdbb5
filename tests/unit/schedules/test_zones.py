"""What clocks that are put forward or back do to schedules, on both days, in zones of all kinds."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from jobmesh.schedules.cron import Cron
from jobmesh.schedules.zones import UnknownZone, ZonedCron, zone


def local_times(expression: str, name: str, day: str) -> list[str]:
    """The firings of a local day, with their offsets; seconds left out where they are 0."""
    clocks = zone(name)
    begin = datetime.fromisoformat(day).replace(tzinfo=clocks).astimezone(UTC)
    end = datetime.fromisoformat(day) + timedelta(days=1)
    until = end.replace(tzinfo=clocks).astimezone(UTC)
    cron, shown = ZonedCron(Cron(expression), clocks), []
    time = cron.next_after(begin - timedelta(seconds=1))
    while time is not None and time < until:
        shown.append(time.astimezone(clocks).strftime("%H:%M%z"))
        time = cron.next_after(time)
    return shown


# 2026: clocks go forward from the first time to the second, and back the other way round.
FORWARD = {
    "Europe/Berlin": ("2026-03-29", "02:30", "03:00+0200"),
    "America/New_York": ("2026-03-08", "02:30", "03:00-0400"),
    "Australia/Sydney": ("2026-10-04", "02:30", "03:00+1100"),
    "America/Santiago": ("2026-09-06", "00:30", "01:00-0300"),  # at midnight
    "Australia/Lord_Howe": ("2026-10-04", "02:15", "02:30+1100"),  # half an hour
    "Antarctica/Troll": ("2026-03-29", "01:30", "03:00+0200"),  # two hours
    "Pacific/Chatham": ("2026-09-27", "03:00", "03:45+1345"),  # at a quarter to
    "Africa/Cairo": ("2026-04-24", "00:30", "01:00+0300"),
}
BACK = {
    "Europe/Berlin": ("2026-10-25", "02:30", "02:30+0200", "02:30+0100"),
    "America/New_York": ("2026-11-01", "01:30", "01:30-0400", "01:30-0500"),
    "Australia/Sydney": ("2026-04-05", "02:30", "02:30+1100", "02:30+1000"),
    "America/Santiago": ("2026-04-04", "23:30", "23:30-0300", "23:30-0400"),
    "Australia/Lord_Howe": ("2026-04-05", "01:45", "01:45+1100", "01:45+1030"),
    "Antarctica/Troll": ("2026-10-25", "02:30", "02:30+0200", "02:30+0000"),
    "Pacific/Chatham": ("2026-04-05", "03:00", "03:00+1345", "03:00+1245"),
}


@pytest.mark.parametrize("name", FORWARD)
def test_a_time_that_does_not_exist_fires_at_the_change(name: str) -> None:
    day, time, fires = FORWARD[name]
    hour, minute = time.split(":")
    assert local_times(f"{minute} {hour} * * *", name, day) == [fires]
    assert local_times(f"0 {minute} {hour} * * *", name, day) == [fires]


@pytest.mark.parametrize("name", BACK)
def test_a_time_that_comes_twice_fires_the_first_time(name: str) -> None:
    day, time, fires, _ = BACK[name]
    hour, minute = time.split(":")
    assert local_times(f"{minute} {hour} * * *", name, day) == [fires]
    assert local_times(f"0 {minute} {hour} * * *", name, day) == [fires]


@pytest.mark.parametrize("name", BACK)
def test_what_goes_by_the_hour_fires_both_times(name: str) -> None:
    day, time, first, second = BACK[name]
    fired = local_times(f"{time[3:]} * * * *", name, day)
    assert first in fired
    assert second in fired


def test_several_times_of_the_hour_that_does_not_exist_fire_once() -> None:
    fired = local_times("0,15,30,45 1,2,3 * * *", "Europe/Berlin", "2026-03-29")
    assert fired == [
        *("01:00+0100", "01:15+0100", "01:30+0100", "01:45+0100"),
        *("03:00+0200", "03:15+0200", "03:30+0200", "03:45+0200"),
    ]


def test_times_that_come_twice_are_silent_the_second_time() -> None:
    fired = local_times("0,30 1,2,3 * * *", "Europe/Berlin", "2026-10-25")
    assert fired == [
        *("01:00+0200", "01:30+0200", "02:00+0200", "02:30+0200"),
        *("03:00+0100", "03:30+0100"),
    ]


@pytest.mark.parametrize(
    ("name", "day", "hours"),
    [
        ("Europe/Berlin", "2026-03-29", 23),
        ("Europe/Berlin", "2026-10-25", 25),
        ("America/New_York", "2026-03-08", 23),
        ("America/New_York", "2026-11-01", 25),
        ("Australia/Sydney", "2026-10-04", 23),
        ("Australia/Sydney", "2026-04-05", 25),
        ("America/Santiago", "2026-09-06", 23),
        ("America/Santiago", "2026-04-04", 25),
        ("Antarctica/Troll", "2026-03-29", 22),
        ("Antarctica/Troll", "2026-10-25", 26),
        ("Australia/Lord_Howe", "2026-10-04", 23.5),
        ("Australia/Lord_Howe", "2026-04-05", 24.5),
        ("Pacific/Chatham", "2026-09-27", 23),
        ("Pacific/Chatham", "2026-04-05", 25),
    ],
)
def test_minutes_and_whole_hours_go_on_evenly(name: str, day: str, hours: float) -> None:
    assert len(local_times("* * * * *", name, day)) == hours * 60
    assert len(local_times("*/15 * * * *", name, day)) == hours * 4
    if hours == int(hours) and "Chatham" not in name:
        assert len(local_times("0 * * * *", name, day)) == hours
        assert len(local_times("@hourly", name, day)) == hours


def test_a_day_that_a_zone_left_out_fires_at_its_end() -> None:
    # Samoa went over the date line, from the evening of the 29th to the morning of the 31st.
    cron = ZonedCron(Cron("0 12 * * *"), zone("Pacific/Apia"))
    begin = datetime(2011, 12, 29, 21, tzinfo=zone("Pacific/Apia")).astimezone(UTC)
    first = cron.next_after(begin)
    assert first is not None
    second = cron.next_after(first)
    assert second is not None
    assert [t.astimezone(cron.zone).isoformat() for t in (first, second)] == [
        "2011-12-31T00:00:00+14:00",
        "2011-12-31T12:00:00+14:00",
    ]


@pytest.mark.parametrize(
    "name", ["Mars/Olympus", "", "../etc/passwd", "Europe/Berlin\0", "a" * 500]
)
def test_a_zone_that_is_none_is_refused(name: str) -> None:
    with pytest.raises(UnknownZone):
        zone(name)


@pytest.mark.parametrize(
    ("expression", "march", "october"),
    [
        ("30 2 * * *", 1, 1),
        ("0,15,30,45 2 * * *", 1, 4),
        ("30 * * * *", 23, 25),
        ("*/10 2 * * *", 0, 12),
    ],
)
def test_the_table_of_the_documentation(expression: str, march: int, october: int) -> None:
    assert len(local_times(expression, "Europe/Berlin", "2026-03-29")) == march
    assert len(local_times(expression, "Europe/Berlin", "2026-10-25")) == october
