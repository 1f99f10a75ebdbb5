"""Which firings are made up for after an outage, and how the burst is spread.

A firing is *missed* once it is late by more than the grace. An election or a restart takes less,
and so skips nothing, whatever the policy. Missed firings are made up for as the policy says, or
recorded together in one record. What is made up for is fired a few at a time and a second apart, so
that a long outage of one schedule keeps no other one waiting, and floods no queue.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import Enum
from itertools import islice
from typing import NamedTuple

from jobmesh.schedules.timetable import Timetable

GRACE = timedelta(seconds=60)
BURST = 10  # firings of one schedule that are made up for at once
SPREAD = timedelta(seconds=1)
MOST_AT_ONCE = 100  # of those that are on time
COUNTED = 1000
DEFAULT_WINDOW = timedelta(days=7)
_MICROSECOND = timedelta(microseconds=1)
_NONE = timedelta()


class Catchup(Enum):
    """What is made up for: nothing, the latest, or all of the window."""

    NONE = "none"
    ONE = "one"
    ALL = "all"


@dataclass(frozen=True, slots=True)
class Missed:
    """Times that nothing is submitted for; ``count`` ends at 1,000."""

    first: datetime
    last: datetime
    count: int


class Fire(NamedTuple):
    """A time to fire; ``late`` if it was missed and is made up for."""

    time: datetime
    late: bool


@dataclass(slots=True)
class Plan:
    """What to do now.

    ``cursor`` is the last time that is dealt with once it is done. ``again`` is the earliest time
    to look again, if there is more that could be done already.
    """

    cursor: datetime
    missed: Missed | None = None
    fire: list[Fire] = field(default_factory=list)
    again: datetime | None = None


def plan(
    table: Timetable,
    cursor: datetime,
    now: datetime,
    policy: Catchup,
    window: timedelta,
    jitter: timedelta = _NONE,
) -> Plan:
    """Deal with the times later than ``cursor``, up to and with ``now``.

    ``jitter`` is how late they may be on purpose.
    """
    made = Plan(cursor)
    overdue = now - GRACE - jitter
    first = table.next_after(cursor)
    if first is not None and first < overdue:
        more = _deal_with_missed(made, table, overdue, now - window, policy)
        if made.fire:
            # What is on time comes in the next turn, after all that is made up for.
            made.again = now + SPREAD if more else now
            return made
    _fire_on_time(made, table, now)
    return made


def _fire_on_time(made: Plan, table: Timetable, now: datetime) -> None:
    times = list(islice(table.upcoming(made.cursor, now), MOST_AT_ONCE))
    if not times:
        return
    made.fire += [Fire(time, late=False) for time in times]
    made.cursor = times[-1]
    if len(times) == MOST_AT_ONCE:
        made.again = now


def _deal_with_missed(
    made: Plan, table: Timetable, overdue: datetime, window_start: datetime, policy: Catchup
) -> bool:
    """Deal with what was missed, or the first of it; whether there is more to make up for."""
    if policy is Catchup.ALL:
        _write_off(made, table, min(overdue, window_start))
        times = list(islice(table.upcoming(made.cursor, overdue), BURST))
        made.fire = [Fire(time, late=True) for time in times]
        made.cursor = max([made.cursor, *times[-1:]])
        return len(times) == BURST
    latest = None
    if policy is Catchup.ONE:
        latest = table.latest(max(made.cursor, window_start), overdue)
    _write_off(made, table, overdue, but=latest)
    if latest is not None:
        made.fire = [Fire(latest, late=True)]
    return False


def _write_off(made: Plan, table: Timetable, until: datetime, but: datetime | None = None) -> None:
    """Record the times up to ``until`` as missed, but for the last one if that is fired."""
    if until <= made.cursor:
        return
    end = until if but is None else but - _MICROSECOND
    times = list(islice(table.upcoming(made.cursor, end), COUNTED))
    if times:
        last = table.latest(times[-1], end) if len(times) == COUNTED else None
        made.missed = Missed(times[0], last or times[-1], len(times))
    made.cursor = until
