from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import click
import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobmesh.cli.values import DURATION, PAIR, TIME, TIME_OR_AGO, json_object, typed_value


def test_arguments_are_a_json_object() -> None:
    assert json_object('{"month": "2026-10", "rows": 1152921504606846977}', "JSON") == {
        "month": "2026-10",
        "rows": 1152921504606846977,
    }


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{month: 3}", r"JSON: malformed JSON at line 1, column 2: .*\n  \{month: 3\}\n   \^"),
        ('{"a": 1,\n "b": }', r"at line 2, column 7"),
        ("", "at line 1, column 1"),
        ("[1]", "must be a JSON object .*; is an array"),
        ("3", "is a number"),
        ("null", "is null"),
        ("true", "is a boolean"),
        ('"text"', "is a string"),
        ('{"a": NaN}', "NaN is not JSON"),
        ("[" * 100_000, "nested too deeply"),
        ('{"a": ' + "9" * 5000 + "}", "JSON: "),
        ('{"a": 7e12345}', "JSON: 7e12345 is too large for a number"),
        ('{"a": [-7e12345]}', "JSON: -7e12345 is too large for a number"),
        ('{"a": "\\ud800"}', "JSON: .*surrogates not allowed"),
    ],
)
def test_what_is_no_json_object_is_refused_with_its_place(text: str, message: str) -> None:
    with pytest.raises(click.UsageError, match=message):
        json_object(text, "JSON")


@given(st.text(max_size=60))
def test_any_text_is_an_object_or_a_usage_error(text: str) -> None:
    try:
        assert isinstance(json_object(text, "JSON"), dict)
    except click.UsageError as error:
        told = error.message
    else:
        return
    assert told.startswith("JSON: ")


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("2026-10", "2026-10"),
        ("1000", 1000),
        ("true", True),
        ('"1000"', "1000"),
        ("[1, 2]", [1, 2]),
        ("", ""),
        ("NaN", "NaN"),
        ("7e12345", "7e12345"),
        ("[1, -7e12345]", "[1, -7e12345]"),
        ("7e3", 7000.0),
    ],
)
def test_the_value_of_an_argument_is_json_or_else_text(text: str, value: Any) -> None:
    assert typed_value(text) == value
    assert type(typed_value(text)) is type(value)


def test_half_a_character_is_no_value_of_an_argument() -> None:
    with pytest.raises(click.UsageError, match=r"--arg: .*surrogates not allowed"):
        typed_value('"\\ud800"')


@given(st.recursive(st.none() | st.booleans() | st.integers() | st.text(), st.lists))
def test_any_json_value_can_be_given_as_an_argument(value: Any) -> None:
    assert typed_value(json.dumps(value)) == value


@pytest.mark.parametrize(
    ("text", "seconds"), [("90", 90), ("1h30m", 5400), ("250ms", 0.25), ("0", 0), ("1.5", 1.5)]
)
def test_durations(text: str, seconds: float) -> None:
    assert DURATION.convert(text, None, None) == seconds


@pytest.mark.parametrize("text", ["-5", "soon", "nan", "inf", "1x", ""])
def test_what_is_no_duration_is_refused(text: str) -> None:
    with pytest.raises(click.BadParameter, match="no length of time; write 90, 1h30m or 250ms"):
        DURATION.convert(text, None, None)


@pytest.mark.parametrize("text", ["1e20", "315576000001", "99999999999d"])
def test_what_the_contract_cannot_hold_is_no_duration(text: str) -> None:
    assert DURATION.convert("315576000000", None, None) == 315_576_000_000
    with pytest.raises(click.BadParameter, match=f"'{text}' is longer than 10,000 years"):
        DURATION.convert(text, None, None)


def test_times_have_the_zone_they_were_given_or_the_machines() -> None:
    assert TIME.convert("2026-11-30T18:00Z", None, None) == datetime(2026, 11, 30, 18, tzinfo=UTC)
    assert TIME.convert("2026-11-30", None, None).tzinfo is not None
    ago = TIME_OR_AGO.convert("15m", None, None)
    assert timedelta(minutes=14) < datetime.now(UTC) - ago < timedelta(minutes=16)


@pytest.mark.parametrize("text", ["tomorrow", "10000-01-01T00:00Z", "15m", ""])
def test_what_is_no_time_is_refused(text: str) -> None:
    with pytest.raises(click.BadParameter, match="no time of the years 1 to 9999"):
        TIME.convert(text, None, None)


def test_pairs() -> None:
    assert PAIR.convert("a=b=c", None, None) == ("a", "b=c")
    assert PAIR.convert("a=", None, None) == ("a", "")
    for text in ("a", "=b"):
        with pytest.raises(click.BadParameter, match="write name=value"):
            PAIR.convert(text, None, None)
