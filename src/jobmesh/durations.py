"""Lengths of time as people write them: ``"1h30m"``, ``"250ms"``, seconds, a timedelta."""

from __future__ import annotations

import math
import re
from datetime import timedelta
from typing import TypeAlias

DurationLike: TypeAlias = str | int | float | timedelta
"""``"1h30m"``, seconds as a number, or a ``timedelta``."""

UNITS = {"d": 86400.0, "h": 3600.0, "m": 60.0, "s": 1.0, "ms": 0.001, "us": 0.000001}

_PART = re.compile(r"(\d+(?:\.\d+)?)(ms|us|d|h|m|s)")
_HINT = 'write for example "1h30m", "10s", "250ms", a number of seconds or a timedelta'


class InvalidDuration(ValueError):
    """Not a length of time."""


def seconds(value: DurationLike, name: str = "duration") -> float:
    """The length in seconds, 0 or more.

    :param name: what the message calls the value.
    :raises InvalidDuration: it cannot be read, is negative or not finite.
    """
    length = _read(value, name)
    if not math.isfinite(length) or length < 0:
        raise InvalidDuration(f"{name}: {value!r} is not a length of time; {_HINT}")
    return length


def nanoseconds(value: DurationLike, name: str = "duration") -> int:
    """As :func:`seconds`, in whole nanoseconds, which protobuf's Duration counts."""
    return round(seconds(value, name) * 1e9)


def _read(value: DurationLike, name: str) -> float:
    if isinstance(value, timedelta):
        return value.total_seconds()
    if isinstance(value, str):
        return _parse(value, name)
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise InvalidDuration(f"{name}: {value!r} is not a length of time; {_HINT}")
    try:
        return float(value)
    except OverflowError:
        return math.inf


def _parse(text: str, name: str) -> float:
    compact = text.strip().lower()
    parts = _PART.findall(compact)
    if not parts or "".join(number + unit for number, unit in parts) != compact:
        raise InvalidDuration(f"{name}: cannot read {text[:100]!r}; {_HINT}")
    units = [unit for _, unit in parts]
    if len(set(units)) != len(units):
        raise InvalidDuration(f"{name}: {text[:100]!r} names a unit twice; {_HINT}")
    return sum(float(number) * UNITS[unit] for number, unit in parts)
