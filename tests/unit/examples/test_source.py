"""Reading the flights: every row once, wherever the reading starts."""

from __future__ import annotations

import csv
import io
import zipfile
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from examples.flights.source import (
    COLUMNS,
    BadSource,
    FlightsFile,
    airlines,
    convert,
    flights_file,
    parse,
)

LINE = "2013,1,1,517,515,2,830,819,11,UA,1545,N14228,EWR,IAH,227,1400,5,15,2013-01-01T10:00:00Z"
NEVER_LEFT = "2013,9,30,NA,840,NA,NA,1020,NA,MQ,1,NA,LGA,RDU,NA,431,8,40,2013-09-30T12:00:00Z"


def write(path: Path, lines: Sequence[str], header: str = ",".join(COLUMNS)) -> FlightsFile:
    with zipfile.ZipFile(path / "flights.zip", "w") as archive:
        archive.writestr("flights.csv", "\n".join((header, *lines)) + "\n")
    return FlightsFile(path / "flights.zip")


def test_the_package_holds_all_flights_and_their_airlines() -> None:
    source = flights_file()
    assert source.count() == 336_776
    (last,) = next(source.batches(336_775, 10))
    assert last[:4] == (336_776, 2013, 9, 30)
    assert ("UA", "United Air Lines Inc.") in airlines()


def test_values_have_their_types_and_na_is_missing() -> None:
    row = dict(zip(COLUMNS, parse(7, NEVER_LEFT.split(","))[1:], strict=True))
    missing = {name for name, value in row.items() if value is None}
    assert missing == {"dep_time", "dep_delay", "arr_time", "arr_delay", "tailnum", "air_time"}
    assert row["sched_dep_time"] == 840
    assert row["time_hour"] == datetime(2013, 9, 30, 12, tzinfo=UTC)


@pytest.fixture(scope="module")
def hundred(tmp_path_factory: pytest.TempPathFactory) -> FlightsFile:
    return write(tmp_path_factory.mktemp("source"), [LINE] * 100)


@given(start=st.integers(0, 120), size=st.integers(1, 130))
def test_batches_continue_from_any_row(hundred: FlightsFile, start: int, size: int) -> None:
    batches = list(hundred.batches(start, size))
    numbers = [row[0] for batch in batches for row in batch]
    assert numbers == list(range(start + 1, 101))
    assert all(len(batch) == size for batch in batches[:-1])
    assert all(0 < len(batch) <= size for batch in batches)


@given(st.text(st.characters(codec="utf-8", exclude_characters="\0"), min_size=1))
def test_a_text_survives_csv_whatever_it_holds(text: str) -> None:
    line = io.StringIO(newline="")
    csv.writer(line).writerow([text])
    (read,) = csv.reader(io.StringIO(line.getvalue(), newline=""))
    assert convert(1, "carrier", str, read[0]) == (None if text == "NA" else text)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (LINE.replace("517", "dawn"), "line 2: dep_time cannot be 'dawn'"),
        (LINE.replace("2013-01-01T", "yesterday"), "line 2: time_hour cannot be 'yesterday10"),
        ("2013,1,1", "line 2: 3 values instead of 19"),
    ],
)
def test_a_bad_line_is_named(tmp_path: Path, line: str, message: str) -> None:
    source = write(tmp_path, [LINE, line])
    with pytest.raises(BadSource, match=message):
        list(source.batches(0, 10))


def test_other_columns_are_refused(tmp_path: Path) -> None:
    source = write(tmp_path, [LINE], header="a,b,c")
    with pytest.raises(BadSource, match="unexpected columns"):
        list(source.batches(0, 10))
