"""The times of a schedule: those of all that it includes, but for those that it excludes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import NamedTuple, Protocol

# Excluded times that are passed over in one search. 5,000 take about 0.1 s.
MOST_PASSED_OVER = 5000
_MICROSECOND = timedelta(microseconds=1)
# How far a search for the latest time goes back, in turn: seldom more than one is needed.
_BACK = (60, 3600, 86_400, 40 * 86_400, 500 * 86_400)


class Source(Protocol):
    """Times in UTC, in some order that never ends or does."""

    def next_after(self, after: datetime) -> datetime | None:
        """The first one later than that."""

    def matches(self, time: datetime) -> bool:
        """Whether that is one."""


@dataclass(frozen=True, slots=True)
class Interval:
    """Every so often, counted from an anchor, whatever clocks do."""

    every: timedelta
    anchor: datetime

    def next_after(self, after: datetime) -> datetime | None:
        """The first one later than that."""
        try:
            return self.anchor + ((after - self.anchor) // self.every + 1) * self.every
        except OverflowError:
            return None

    def matches(self, time: datetime) -> bool:
        """Whether that is one."""
        return not (time - self.anchor) % self.every


@dataclass(frozen=True, slots=True)
class Once:
    """One time."""

    time: datetime

    def next_after(self, after: datetime) -> datetime | None:
        """The time, unless it has passed."""
        return self.time if self.time > after else None

    def matches(self, time: datetime) -> bool:
        """Whether that is it."""
        return time == self.time


class Search(NamedTuple):
    """What a search came to.

    ``time``: the next one, if one was found. Else ``searched_to`` is how far there is none; if it
    is None too, there will be none any more.
    """

    time: datetime | None
    searched_to: datetime | None = None


@dataclass(frozen=True, slots=True)
class Timetable:
    """When a schedule fires; all times are in UTC. ``start`` belongs to it, ``end`` does not."""

    include: Sequence[Source]
    exclude: Sequence[Source] = ()
    start: datetime | None = None
    end: datetime | None = None

    def search(self, after: datetime) -> Search:
        """Look for the first time later than ``after``, for as long as is reasonable."""
        if self.start is not None and after < self.start:
            after = self.start - _MICROSECOND
        for _ in range(MOST_PASSED_OVER):
            time = self._candidate(after)
            if time is None or (self.end is not None and time >= self.end):
                return Search(None)
            if not any(source.matches(time) for source in self.exclude):
                return Search(time)
            after = time
        return Search(None, after)

    def next_after(self, after: datetime) -> datetime | None:
        """The first time later than ``after``; None if there is none as far as was looked."""
        return self.search(after).time

    def upcoming(self, after: datetime, until: datetime | None = None) -> Iterator[datetime]:
        """The times later than ``after``, up to and with ``until``."""
        time = self.next_after(after)
        while time is not None and (until is None or time <= until):
            yield time
            time = self.next_after(time)

    def latest(self, after: datetime, until: datetime) -> datetime | None:
        """The last time later than ``after``, up to and with ``until``."""
        for seconds in _BACK:
            begin = max(after, until - timedelta(seconds=seconds))
            last = None
            for time in self.upcoming(begin, until):
                last = time
            if last is not None or begin == after:
                return last
        return None

    def _candidate(self, after: datetime) -> datetime | None:
        times = [time for source in self.include if (time := source.next_after(after)) is not None]
        return min(times, default=None)


EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
