"""Lengths of time as people write them: ``"1h30m"``, ``"250ms"``, seconds, a timedelta."""

from __future__ import annotations

import math
import re
from datetime import timedelta
from decimal import Decimal
from typing import TypeAlias

DurationLike: TypeAlias = str | int | float | timedelta
"""``"1h30m"``, seconds as a number, or a ``timedelta``."""

UNITS = {"d": 86400.0, "h": 3600.0, "m": 60.0, "s": 1.0, "ms": 0.001, "us": 0.000001}
MOST_SECONDS = 315_576_000_000  # 10,000 years: what protobuf's Duration holds

_MICROSECONDS = {unit: round(length * 1e6) for unit, length in UNITS.items()}

_PART = re.compile(r"(\d+(?:\.\d+)?)(ms|us|d|h|m|s)")
_LONGEST_TEXT = 100
_HINT = 'write for example "1h30m", "10s", "250ms", a number of seconds or a timedelta'


class InvalidDuration(ValueError):
    """Not a length of time."""


def seconds(value: DurationLike, name: str = "duration") -> float:
    """The length in seconds, 0 or more.

    :param name: what the message calls the value.
    :raises InvalidDuration: it cannot be read, is negative or not finite.
    """
    return float(_checked(value, name))


def nanoseconds(value: DurationLike, name: str = "duration") -> int:
    """As :func:`seconds`, in whole nanoseconds, which protobuf's Duration counts: 10,000 years."""
    length = _checked(value, name)
    if length > MOST_SECONDS:
        raise InvalidDuration(f"{name}: {str(value)[:100]} is longer than 10,000 years; {_HINT}")
    return round(length * 10**9)


def text(length: timedelta) -> str:
    """The length as people write it, e.g. ``1h30m``; reading it gives the same length again."""
    rest, parts = length // timedelta(microseconds=1), []
    for unit, size in _MICROSECONDS.items():
        count, rest = divmod(rest, size)
        if count:
            parts.append(f"{count}{unit}")
    return "".join(parts) or "0s"


def _checked(value: DurationLike, name: str) -> float | Decimal:
    length = _read(value, name)
    if not math.isfinite(length) or length < 0:
        raise InvalidDuration(f"{name}: {value!r} is not a length of time; {_HINT}")
    return length


def _read(value: DurationLike, name: str) -> float | Decimal:
    """In seconds; decimal where nothing is lost, as floats lose the microseconds of years."""
    if isinstance(value, timedelta):
        return Decimal(value // timedelta(microseconds=1)).scaleb(-6)
    if isinstance(value, str):
        return _parse(value, name)
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise InvalidDuration(f"{name}: {value!r} is not a length of time; {_HINT}")
    try:
        return float(value)
    except OverflowError:
        return math.inf


def _parse(text: str, name: str) -> Decimal:
    compact = text.strip().lower()
    parts = _PART.findall(compact[:_LONGEST_TEXT])
    if not parts or "".join(number + unit for number, unit in parts) != compact:
        raise InvalidDuration(f"{name}: cannot read {text[:100]!r}; {_HINT}")
    units = [unit for _, unit in parts]
    if len(set(units)) != len(units):
        raise InvalidDuration(f"{name}: {text[:100]!r} names a unit twice; {_HINT}")
    lengths = (Decimal(number) * _MICROSECONDS[unit] for number, unit in parts)
    return sum(lengths, Decimal()).scaleb(-6)
