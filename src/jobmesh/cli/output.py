"""What commands print: rows for people, or JSON, one object a line, for programs."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Generic, NamedTuple, TypeVar

import click

from jobmesh.cli.connection import wants_json

T = TypeVar("T")


class Column(NamedTuple, Generic[T]):
    """A column of a table: its heading, and what it shows of an item."""

    title: str
    value: Callable[[T], object]


def print_json(value: object) -> None:
    """One JSON value on one line."""
    click.echo(_harmless_json(value))


def print_value(value: object) -> None:
    """A value that a job holds, as JSON that a person can read."""
    click.echo(pretty(value))


def pretty(value: object) -> str:
    """JSON over several lines; data that is not JSON is only measured."""
    if isinstance(value, bytes):
        return f"({len(value)} bytes that are not JSON)"
    return _harmless_json(value, indent=2)


def print_rows(items: Iterable[T], columns: Sequence[Column[T]], form: Callable[[T], Any]) -> None:
    """Items as an aligned table, or each as a line of JSON."""
    if wants_json():
        for item in items:
            print_json(form(item))
        return
    rows = [[_cell(column.value(item)) for column in columns] for item in items]
    print_table([column.title for column in columns], rows)


def print_table(titles: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Rows in columns as wide as they need to be; nothing is cut, so that it can be copied."""
    widths = [max(map(len, column)) for column in zip(titles, *rows, strict=True)]
    click.secho(_line(titles, widths), bold=True)
    for row in rows:
        click.echo(_line(row, widths))


def print_sheet(fields: Iterable[tuple[str, object]]) -> None:
    """One item as lines of name and value; what is empty is left out."""
    shown = [(name, text) for name, value in fields if (text := _cell(value)) != "-"]
    width = max((len(name) for name, _ in shown), default=0)
    for name, text in shown:
        first, *more = text.splitlines() or [""]
        click.echo(f"{click.style(name.ljust(width), bold=True)}  {first}")
        for line in more:
            click.echo(f"{'':{width}}  {line}")


def clean(text: str) -> str:
    """The text without control characters, which a job could use to write all over a terminal."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() or c in "\n\t" else ascii(c)[1:-1] for c in text)


def _harmless_json(value: object, indent: int | None = None) -> str:
    """JSON with escapes for what would control a terminal, and what its locale cannot show."""
    text = json.dumps(value, ensure_ascii=False, indent=indent)
    if not _can_be_shown(text):
        text = json.dumps(value, indent=indent)
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() or c == "\n" else json.dumps(c)[1:-1] for c in text)


def _can_be_shown(text: str) -> bool:
    try:
        text.encode(sys.stdout.encoding or "utf-8")
    except UnicodeEncodeError:
        return False
    return True


def _line(cells: Sequence[str], widths: Sequence[int]) -> str:
    return "  ".join(cell.ljust(width) for cell, width in zip(cells, widths, strict=True)).rstrip()


def _cell(value: object) -> str:
    return clean("" if value is None else str(value)) or "-"
