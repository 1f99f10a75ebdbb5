"""Values as they are typed: JSON, durations, times, pairs. What is wrong is a usage error."""

from __future__ import annotations

import json
import math
from datetime import UTC, datetime, timedelta
from typing import Any, NoReturn

import click

from jobmesh.durations import MOST_SECONDS, InvalidDuration, seconds

# What the contract holds.
INT32 = click.IntRange(0, (1 << 31) - 1)
INT64 = click.IntRange(0, (1 << 63) - 1)


class DurationType(click.ParamType):  # type: ignore[type-arg]
    """``1h30m``, ``250ms``, or a number of seconds; seconds as a float."""

    name = "duration"

    def convert(
        self, value: Any, parameter: click.Parameter | None, context: click.Context | None
    ) -> float:
        """The length in seconds."""
        try:
            length = seconds(float(value) if _is_number(value) else value, "it")
        except InvalidDuration:
            self.fail(
                f"{value!r} is no length of time; write 90, 1h30m or 250ms", parameter, context
            )
        if length > MOST_SECONDS:
            self.fail(f"{value!r} is longer than 10,000 years", parameter, context)
        return length


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
        value = _loads(text)
    except json.JSONDecodeError as error:
        raise click.UsageError(_point_at(error, what)) from None
    except RecursionError:
        raise click.UsageError(f"{what}: the JSON is nested too deeply") from None
    except ValueError as error:  # a constant, or a number that is too large
        raise click.UsageError(f"{what}: {error}") from None
    if not isinstance(value, dict):
        raise click.UsageError(
            f"{what}: must be a JSON object of arguments by name, as in "
            f"""'{{"month": "2026-10"}}'; is {_kind(value)}"""
        )
    _require_sendable(value, what)
    return value


def typed_value(text: str) -> Any:
    """The value of ``--arg name=value``: JSON if it is that, else the text itself.

    Raises:
        click.UsageError: it is JSON that cannot be sent.
    """
    try:
        value = _loads(text)
    except (ValueError, RecursionError):
        return text
    _require_sendable(value, "--arg")
    return value


def require_unicode(value: object) -> None:
    """What was typed, if it is text: a shell passes any bytes on, and the mesh takes Unicode only.

    Raises:
        click.UsageError: it is none.
    """
    for text in value if isinstance(value, tuple) else [value]:
        if isinstance(text, tuple):
            require_unicode(text)
        elif isinstance(text, str) and not is_unicode(text):
            raise click.UsageError(f"{text!a} is not Unicode")


def is_unicode(text: str) -> bool:
    """Whether it holds whole characters only, and no bytes that are none."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _loads(text: str) -> Any:
    return json.loads(text, parse_constant=_no_constant, parse_float=_finite)


def _finite(text: str) -> float:
    # Python would take it for an infinity, and that for null.
    if not math.isfinite(number := float(text)):
        raise ValueError(f"{text[:100]} is too large for a number; write it as text, in quotes")
    return number


def _require_sendable(value: Any, what: str) -> None:
    from jobmesh import codec

    try:
        codec.encode(value, "arguments")
    except codec.NotSerializable as error:  # halves of characters, written as escapes
        raise click.UsageError(f"{what}: {error.__cause__ or error}") from None


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
