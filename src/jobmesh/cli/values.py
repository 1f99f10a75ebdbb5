"""Values as they are typed: JSON, durations, times, pairs. What is wrong is a usage error."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import Any, NoReturn

import click

from jobmesh.durations import InvalidDuration, seconds


class DurationType(click.ParamType):  # type: ignore[type-arg]
    """``1h30m``, ``250ms``, or a number of seconds; seconds as a float."""

    name = "duration"

    def convert(
        self, value: Any, parameter: click.Parameter | None, context: click.Context | None
    ) -> float:
        """The length in seconds."""
        try:
            return seconds(float(value) if _is_number(value) else value, "it")
        except InvalidDuration:
            self.fail(
                f"{value!r} is no length of time; write 90, 1h30m or 250ms", parameter, context
            )


class TimeType(click.ParamType):  # type: ignore[type-arg]
    """A time as in ISO 8601, or a length of time: so long ago."""

    name = "time"

    def __init__(self, *, ago: bool = False) -> None:
        self._ago = ago

    def convert(
        self, value: Any, parameter: click.Parameter | None, context: click.Context | None
    ) -> datetime:
        """An aware time; without a zone it is the machine's own."""
        time = value if isinstance(value, datetime) else _time(value)
        if time is None and self._ago:
            time = _ago(value)
        if time is None:
            example = "2026-11-30T18:00Z" + (" or 15m (ago)" if self._ago else "")
            self.fail(
                f"{value!r} is no time of the years 1 to 9999; write {example}", parameter, context
            )
        return time


class PairType(click.ParamType):  # type: ignore[type-arg]
    """``name=value``."""

    name = "name=value"

    def convert(
        self, value: Any, parameter: click.Parameter | None, context: click.Context | None
    ) -> tuple[str, str]:
        """The name and the value."""
        if isinstance(value, tuple):
            return value
        name, equals, text = value.partition("=")
        if not equals or not name:
            self.fail(f"{value!r}: write name=value", parameter, context)
        return name, text


DURATION = DurationType()
TIME = TimeType()
TIME_OR_AGO = TimeType(ago=True)
PAIR = PairType()


def json_object(text: str, what: str) -> dict[str, Any]:
    """A JSON object of arguments by name.

    Raises:
        click.UsageError: it is none; the message shows the place.
    """
    try:
        value = json.loads(text, parse_constant=_no_constant)
    except json.JSONDecodeError as error:
        raise click.UsageError(_point_at(error, what)) from None
    except RecursionError:
        raise click.UsageError(f"{what}: the JSON is nested too deeply") from None
    except ValueError as error:  # a constant, or an integer of thousands of digits
        raise click.UsageError(f"{what}: {error}") from None
    if not isinstance(value, dict):
        raise click.UsageError(
            f"{what}: must be a JSON object of arguments by name, as in "
            f"""'{{"month": "2026-10"}}'; is {_kind(value)}"""
        )
    return value


def typed_value(text: str) -> Any:
    """The value of ``--arg name=value``: JSON if it is that, else the text itself."""
    try:
        return json.loads(text, parse_constant=_no_constant)
    except (ValueError, RecursionError):
        return text


def _point_at(error: json.JSONDecodeError, what: str) -> str:
    message = f"{what}: malformed JSON at line {error.lineno}, column {error.colno}: {error.msg}"
    lines = error.doc.splitlines()
    line = lines[error.lineno - 1] if error.lineno <= len(lines) else ""
    start = max(0, error.colno - 40)
    shown = line[start : start + 72]
    if not shown.isprintable():
        return message
    return f"{message}\n  {shown}\n  {' ' * (error.colno - 1 - start)}^"


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


def _kind(value: object) -> str:
    if value is None:
        return "null"
    return {bool: "a boolean", str: "a string", list: "an array"}.get(type(value), "a number")


def _time(text: str) -> datetime | None:
    try:
        return datetime.fromisoformat(text).astimezone()
    except (ValueError, OverflowError):
        return None


def _ago(text: str) -> datetime | None:
    try:
        return datetime.now(UTC) - timedelta(seconds=seconds(text, "it"))
    except (InvalidDuration, OverflowError):
        return None


def _is_number(value: Any) -> bool:
    try:
        float(value)
    except (TypeError, ValueError):
        return False
    return True
