"""Wall-clock times as instants, also where clocks are put forward or back.

The rules, for a cron expression in a zone:

* One that names times of the day fires once for each that its day has. A time in the hour that does
  not exist fires at the change, when the clocks jump; several of that hour fire once. A time in the
  hour that comes twice fires the first time.
* One that goes by the hour (its minute or hour field begins with ``*``) fires whenever the clock
  shows a time that matches: never in the hour that does not exist, and both times in the hour that
  comes twice. So what runs every minute or every hour goes on evenly through both.

Daylight saving is not the only reason for clocks to change, and an hour not the only size of a
change; nothing here supposes so.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from jobmesh.schedules.cron import Cron

_SECOND = timedelta(seconds=1)


class UnknownZone(ValueError):
    """There is no time zone of that name."""


def zone(name: str) -> ZoneInfo:
    """The zone of an IANA name. Raises `UnknownZone`."""
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise UnknownZone(name) from None


class ZonedCron:
    """A cron expression on the clocks of a zone."""

    def __init__(self, cron: Cron, zone: ZoneInfo) -> None:
        self.cron = cron
        self.zone = zone

    def next_after(self, after: datetime) -> datetime | None:
        """The first instant later than ``after``, both in UTC; None if there is none."""
        step = self._running_on if self.cron.by_the_hour else self._times_of_day
        return step(after)

    def matches(self, time: datetime) -> bool:
        """Whether the clocks of the zone show a time then that the expression names."""
        return self.cron.matches(_wall(time, self.zone))

    def _running_on(self, after: datetime) -> datetime | None:
        wall = self.cron.next(_wall(after, self.zone))
        change = _end_of_first_pass(after, self.zone)
        if change is not None:
            first = None if wall is None else _instant(wall, self.zone, 0)
            if first is not None and after < first < change:
                return first
            # The clocks are about to be put back, and go through an hour again.
            wall = self.cron.next(_wall(change, self.zone) - _SECOND)
            after = change - _SECOND
        while wall is not None:
            instants = _instants(wall, self.zone)
            if found := [instant for instant in instants if instant > after]:
                return found[0]
            wall = self.cron.next(wall)
        return None

    def _times_of_day(self, after: datetime) -> datetime | None:
        wall = self.cron.next(_wall(after, self.zone))
        while wall is not None:
            instants = _instants(wall, self.zone)
            instant = instants[0] if instants else _change_over(wall, self.zone)
            if instant > after:
                return instant
            wall = self.cron.next(wall)
        return None


def _wall(time: datetime, zone: ZoneInfo) -> datetime:
    return time.astimezone(zone).replace(tzinfo=None, fold=0)


def _instant(wall: datetime, zone: ZoneInfo, fold: int) -> datetime:
    return wall.replace(tzinfo=zone, fold=fold).astimezone(UTC)


def _instants(wall: datetime, zone: ZoneInfo) -> list[datetime]:
    """When the clocks show that time: never, once or twice, the earlier first."""
    first, second = _instant(wall, zone, 0), _instant(wall, zone, 1)
    if first == second:
        return [first]
    return [first, second] if first < second else []


def _change_over(wall: datetime, zone: ZoneInfo) -> datetime:
    """When the clocks jumped over a time that does not exist."""
    return _change(zone, _instant(wall, zone, 1), _instant(wall, zone, 0))


def _end_of_first_pass(time: datetime, zone: ZoneInfo) -> datetime | None:
    """When the clocks are put back, if they show a time now that will come again."""
    local = time.astimezone(zone)
    if local.fold:
        return None
    again = local.replace(fold=1).astimezone(UTC)
    return _change(zone, time, again) if again > time else None


def _change(zone: ZoneInfo, before: datetime, after: datetime) -> datetime:
    """The first instant, in (``before``, ``after``], at which the offset is no more what it was."""
    old = before.astimezone(zone).utcoffset()
    low, high = 0, int((after - before) / _SECOND) + 1
    while high - low > 1:
        middle = (low + high) // 2
        same = (before + middle * _SECOND).astimezone(zone).utcoffset() == old
        low, high = (middle, high) if same else (low, middle)
    return (before + high * _SECOND).replace(microsecond=0)
