from __future__ import annotations

import math
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobmesh.durations import UNITS, InvalidDuration, nanoseconds, seconds


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
     10**400, timedelta(seconds=-1), None, [], "1e3s"],
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
