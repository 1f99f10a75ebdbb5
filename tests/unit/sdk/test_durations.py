from __future__ import annotations

import math
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobmesh.durations import MOST_SECONDS, UNITS, InvalidDuration, nanoseconds, seconds, text

LENGTHS = st.timedeltas(timedelta(), timedelta(seconds=MOST_SECONDS))


@pytest.mark.parametrize(
    ("written", "length"),
    [
        ("1h30m", 5400.0),
        ("10s", 10.0),
        ("250ms", 0.25),
        ("1d", 86400.0),
        ("1.5h", 5400.0),
        ("2us", 2e-6),
        (" 10S ", 10.0),
        (0, 0.0),
        (2.5, 2.5),
        (timedelta(minutes=1), 60.0),
    ],
)
def test_what_people_write_is_read(written: str | float | timedelta, length: float) -> None:
    assert seconds(written) == pytest.approx(length)


@pytest.mark.parametrize(
    "written",
    ["", "10", "s", "10 parsecs", "-1s", "1s1s", "1h-30m", "nan", -1, math.nan, math.inf, True,
     10**400, timedelta(seconds=-1), None, [], "1e3s", f"{'9' * 2_000_000}d"],
)  # fmt: skip
def test_what_is_no_length_is_refused_by_name(written: object) -> None:
    with pytest.raises(InvalidDuration, match=r"^pause: .*write for example"):
        seconds(written, "pause")  # type: ignore[arg-type]


@given(st.dictionaries(st.sampled_from(sorted(UNITS)), st.integers(0, 10_000), min_size=1))
def test_parts_add_up(parts: dict[str, int]) -> None:
    written = "".join(f"{number}{unit}" for unit, number in parts.items())
    expected = sum(number * UNITS[unit] for unit, number in parts.items())
    assert seconds(written) == pytest.approx(expected)


@given(st.integers(0, 10**6))
def test_nanoseconds_are_whole(milliseconds: int) -> None:
    assert nanoseconds(f"{milliseconds}ms") == milliseconds * 1_000_000


@pytest.mark.parametrize("written", [1e20, "99999999999999d", timedelta.max, f"{'9' * 400}d"])
def test_what_the_contract_cannot_hold_is_refused_by_name(written: str | float) -> None:
    with pytest.raises(InvalidDuration, match=r"^pause: ") as caught:
        nanoseconds(written, "pause")
    assert len(str(caught.value)) < 1000


@given(LENGTHS)
def test_no_microsecond_of_a_timedelta_is_lost(length: timedelta) -> None:
    assert nanoseconds(length) == length // timedelta(microseconds=1) * 1000


@pytest.mark.parametrize(
    ("length", "written"),
    [
        (timedelta(), "0s"),
        (timedelta(seconds=2), "2s"),
        (timedelta(minutes=90), "1h30m"),
        (timedelta(days=1), "1d"),
        (timedelta(seconds=1, milliseconds=500), "1s500ms"),
        (timedelta(microseconds=7), "7us"),
    ],
)
def test_a_length_is_written_as_people_write_it(length: timedelta, written: str) -> None:
    assert text(length) == written


@given(LENGTHS)
def test_what_is_written_is_read_as_the_same_length(length: timedelta) -> None:
    assert nanoseconds(text(length)) == nanoseconds(length)


@given(st.timedeltas(timedelta(), timedelta(days=365 * 250)))
def test_what_is_written_is_read_as_the_same_seconds(length: timedelta) -> None:
    assert timedelta(seconds=seconds(text(length))) == length
