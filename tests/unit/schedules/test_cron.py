"""What is understood, and where a mistake is said to be."""

# Wall-clock times have no zone here.
# ruff: noqa: DTZ001
from __future__ import annotations

from datetime import datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobmesh.schedules.cron import MACROS, BadCron, Cron

START = datetime(2026, 1, 1)


@pytest.mark.parametrize(
    ("expression", "first"),
    [
        ("0 2 * * *", datetime(2026, 1, 1, 2)),
        ("*/7 * * * *", datetime(2026, 1, 1, 0, 7)),
        ("30 0 2 * * *", datetime(2026, 1, 1, 2, 0, 30)),
        ("0 9-17/4 * * mon-fri", datetime(2026, 1, 1, 9)),
        ("0 0 * feb,APR *", datetime(2026, 2, 1)),
        ("0 0 L * *", datetime(2026, 1, 31)),
        ("0 0 LW * *", datetime(2026, 1, 30)),
        ("0 0 * * 5L", datetime(2026, 1, 30)),
        ("0 0 * * MON#2", datetime(2026, 1, 12)),
        ("0 0 29 2 *", datetime(2028, 2, 29)),
        ("0 0 13 * FRI", datetime(2026, 1, 2)),  # either
        ("@daily", datetime(2026, 1, 2)),
        ("@WEEKLY", datetime(2026, 1, 4)),
        ("  0   2 * * * ", datetime(2026, 1, 1, 2)),
    ],
)
def test_the_first_time(expression: str, first: datetime) -> None:
    assert Cron(expression).next(START) == first


@pytest.mark.parametrize(
    ("expression", "position", "word"),
    [
        ("61 * * * *", 1, "minute"),
        ("0 24 * * *", 3, "hour"),
        ("0 1,2,25 * * *", 7, "hour"),
        ("0 2 32 * *", 5, "day of month"),
        ("0 2 * JANUARY *", 7, "month"),
        ("0 2 * * 8", 9, "day of week"),
        ("0 2 * * MON#6", 9, "day of week"),
        ("0 60 2 * * *", 3, "minute"),
        ("*/0 * * * *", 1, "minute"),
        ("5-1 * * * *", 1, "minute"),
        ("0 0 15W * *", 5, "LW"),
        ("0 0 ? * *", 5, "write *"),
        ("0 2 * *", 0, "4 field"),
        ("", 0, "0 field"),
        ("0 0 31 2 *", 0, "no month has"),
        ("0 0 30 FEB *", 0, "no month has"),
        ("@every 5m", 1, "@daily"),
        ("@reboot", 1, "@daily"),
        ("* " * 150, 0, "300 characters"),
        ("0 2 * * \x00", 9, "day of week"),
        ("0 ² * * *", 3, "hour"),
    ],
)
def test_a_mistake_is_told_with_its_place(expression: str, position: int, word: str) -> None:
    with pytest.raises(BadCron) as caught:
        Cron(expression)
    assert caught.value.position == position
    assert word in str(caught.value)


@given(st.text(max_size=40))
def test_any_text_is_an_expression_or_a_bad_one(text: str) -> None:
    try:
        cron = Cron(text)
    except BadCron as error:
        position = error.position
    else:
        position = 0
        assert cron.next(START) is not None
    assert 0 <= position <= len(text)


@given(st.lists(st.text("0123456789*/,-L#WMON ", min_size=1, max_size=5), min_size=5, max_size=6))
def test_what_looks_like_one_never_fails_otherwise(fields: list[str]) -> None:
    try:
        why = str(Cron(" ".join(fields)).next(START))
    except BadCron as error:
        why = error.why
    assert why


def test_every_macro_is_known_in_any_case() -> None:
    for name in MACROS:
        assert Cron(name.upper()).next(START) == Cron(MACROS[name]).next(START)


def test_five_fields_match_the_whole_minute_and_six_the_second() -> None:
    time = datetime(2026, 1, 1, 2, 0, 30)
    assert Cron("0 2 * * *").matches(time)
    assert not Cron("0 0 2 * * *").matches(time)
    assert Cron("30 0 2 * * *").matches(time)
    assert not Cron("0 3 * * *").matches(time)
