"""Cron expressions: read with the position of a mistake, and the wall-clock times they name.

The calendar (which days have a 31st, which is the last Friday) is cronsim's; it is asked for times
without a zone only. What a zone's clocks do to them is decided in ``zones``.
"""

from __future__ import annotations

import re
from datetime import datetime, timedelta

from cronsim import CronSim, CronSimError

MAX_LENGTH = 200
MACROS = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}
FIELDS = ("second", "minute", "hour", "day of month", "month", "day of week")
_SECOND = timedelta(seconds=1)
# Any time will do to learn whether an expression is well-formed; a leap year, for 29 February.
_SOME_TIME = datetime(2024, 1, 1)  # noqa: DTZ001 - wall clock, no zone


class BadCron(ValueError):
    """The expression is malformed; ``position`` counts characters from 1, 0 stands for all."""

    def __init__(self, why: str, position: int = 0) -> None:
        self.why = why
        self.position = position
        super().__init__(f"at character {position}: {why}" if position else why)


class Cron:
    """A cron expression, as wall-clock times that have no zone.

    - ``seconds``: it has the sixth field.
    - ``by_the_hour``: its minute or hour begins with a star. It goes on with the clock, as opposed
      to naming times of the day: the distinction that Debian's cron makes when clocks change.
    """

    def __init__(self, text: str) -> None:
        """Raises `BadCron`."""
        self.text = text
        expression = _expanded(text)
        fields = expression.split()
        self.seconds = len(fields) == len(FIELDS)
        self.by_the_hour = any(field.startswith("*") for field in fields[-5:-3])
        self._simulation = _parsed(expression, text)
        if self.next(_SOME_TIME) is None:
            raise BadCron("names a day that no month has")

    def next(self, after: datetime) -> datetime | None:
        """The first wall-clock time later than ``after``; None if there is none for 50 years."""
        simulation = self._simulation
        simulation.dt = after.replace(microsecond=0)
        return next(simulation, None)

    def matches(self, time: datetime) -> bool:
        """Whether it names that wall-clock time, or its minute if it has no seconds."""
        exact = time.replace(microsecond=0) if self.seconds else _minute(time)
        if self.seconds and time.microsecond:
            return False
        return self.next(exact - _SECOND) == exact


def _minute(time: datetime) -> datetime:
    return time.replace(second=0, microsecond=0)


def _expanded(text: str) -> str:
    if len(text) > MAX_LENGTH:
        raise BadCron(f"has {len(text)} characters, at most {MAX_LENGTH} are allowed")
    stripped = text.strip()
    if not stripped.startswith("@"):
        return text
    if (expression := MACROS.get(stripped.lower())) is None:
        raise BadCron(f"{stripped[:20]!a} is none of {', '.join(MACROS)}", text.index("@") + 1)
    return expression


def _parsed(expression: str, text: str) -> CronSim:
    count = len(expression.split())
    if count not in (5, 6):
        raise BadCron(f"has {count} field(s); five are needed, or six with seconds first")
    try:
        return CronSim(expression, _SOME_TIME)
    except (CronSimError, ValueError, AssertionError, IndexError, TypeError):
        raise _located(text) from None


def _located(text: str) -> BadCron:
    """Which part of which field is the first that is not understood."""
    found = list(re.finditer(r"\S+", text))
    for field, name in zip(found, FIELDS[-len(found) :], strict=True):
        start = field.start()
        for term in field[0].split(","):
            if not _understood(term, FIELDS.index(name)):
                return BadCron(f"{term[:30]!a} is no {name}{_hint(term)}", start + 1)
            start += len(term) + 1
    return BadCron("names a day that no month has")


def _understood(term: str, index: int) -> bool:
    fields = ["*"] * len(FIELDS)
    fields[index] = term
    try:
        CronSim(" ".join(fields), _SOME_TIME)
    except (CronSimError, ValueError, AssertionError, IndexError, TypeError):
        return False
    return True


def _hint(term: str) -> str:
    if "?" in term:
        return "; write * instead"
    if term.upper().endswith("W"):
        return "; of the W kind only LW is known, the month's last weekday"
    return ""
