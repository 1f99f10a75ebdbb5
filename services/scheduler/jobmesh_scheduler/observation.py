"""Tell from repeated reads whose counter stood still, without comparing clocks of machines.

A holder of a lease makes a counter grow. Whoever wonders whether it still lives reads the counter
again and again, and measures by its own monotonic clock for how long the value stayed the same.
The value a read returned was true at some moment between sending it and receiving its answer, so
the time from the first answer that showed it to the sending of the last read that showed it is a
lower bound of how long it stood still.

Standing still proves something only while the holder could have been seen moving. After a longer
gap between reads (a pause of the observer, an outage or a freeze of the database, in which nobody
could renew either) the observation begins anew.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)
M = TypeVar("M")

GAPS_IN_A_LEASE = 4


@dataclass(frozen=True, slots=True)
class _Sighting(Generic[M]):
    mark: M
    since: float


class Observation(Generic[K, M]):
    """Watches the marks (counters) of any number of keys; times in seconds of one monotonic clock.

    A key whose mark stood still for ``lease`` counts as silent.
    """

    def __init__(self, lease: float) -> None:
        if lease <= 0:
            raise ValueError("a lease is longer than nothing")
        self.lease = lease
        self.longest_gap = lease / GAPS_IN_A_LEASE
        self._sightings: dict[K, _Sighting[M]] = {}
        self._last_sent: float | None = None

    def begin_anew(self) -> None:
        """Forget what was seen: a read failed, or something else made it worthless."""
        self._sightings.clear()
        self._last_sent = None

    def take_in(self, marks: Mapping[K, M], *, sent: float, received: float) -> list[K]:
        """One read of all keys; returns those that stood still for the lease.

        A key that is not in ``marks`` is forgotten. From the sending of the last read to the answer
        of this one at most a quarter of the lease may pass, or this read is the first of a new
        observation.
        """
        if self._last_sent is None or received - self._last_sent > self.longest_gap:
            self._sightings.clear()
        self._last_sent = sent
        self._sightings = {key: self._sighting(key, mark, received) for key, mark in marks.items()}
        return [key for key, seen in self._sightings.items() if sent - seen.since >= self.lease]

    def _sighting(self, key: K, mark: M, received: float) -> _Sighting[M]:
        seen = self._sightings.get(key)
        if seen is not None and seen.mark == mark:
            return seen
        return _Sighting(mark, received)
