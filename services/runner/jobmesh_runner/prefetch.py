"""How many jobs to take ahead: as many as are run in a quarter of a second.

Short jobs need many on the way, or the slots stand empty for every round trip to the dispatcher and
its database; of long ones any job taken ahead waits here while another runner may be idle. The
rate at which jobs end tells the two apart.
"""

from __future__ import annotations

import math

TICK_SECONDS = 0.1
AHEAD_SECONDS = 0.25
LEAST = 4
"""Fewer are not worth it: one long job that ends looks like that for a moment."""
_WEIGHT = 0.5  # of the latest tick: what is long past says little


class Prefetch:
    """The number for one runner: :meth:`tick` it ten times a second while :attr:`is_moving`."""

    def __init__(self, most: int) -> None:
        self.value = 0
        self._most = most
        self._rate = 0.0
        self._ended = 0

    @property
    def is_moving(self) -> bool:
        """Whether the next tick may change anything."""
        return bool(self._ended or self.value)

    def ended(self) -> None:
        """One more job has ended."""
        self._ended += 1

    def tick(self, seconds: float) -> bool:
        """So much time has passed; whether the value has changed enough to be told."""
        rate = self._ended / max(seconds, TICK_SECONDS / 2)
        self._ended = 0
        self._rate += _WEIGHT * (rate - self._rate)
        wanted = min(self._most, math.floor(self._rate * AHEAD_SECONDS))
        if wanted < LEAST:
            wanted = 0
        if not _differs(self.value, wanted):
            return False
        self.value = wanted
        return True


def _differs(told: int, wanted: int) -> bool:
    """Small changes are not worth a message; none and the first are."""
    return wanted != told and (wanted == 0 or abs(wanted - told) * 4 >= told)
