"""Durations and points in time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from google.protobuf.duration_pb2 import Duration
from google.protobuf.timestamp_pb2 import Timestamp

from jobmesh.validation.violations import Violations

NANOS: Final = 1_000_000_000
DAY: Final = 86_400 * NANOS

# The years 1 to 9999, which Python, JSON and other languages can hold.
_FIRST_SECOND = -62_135_596_800
_LAST_SECOND = 253_402_300_799
_MOST_SECONDS = 315_576_000_000  # 10,000 years: what a Duration may hold at all


@dataclass(frozen=True, slots=True)
class Span:
    """The durations that a field allows, in nanoseconds, both ends included."""

    least: int
    most: int
    shown: str


TIMEOUT = Span(1_000_000, 366 * DAY, "1 ms to 366 days")
LONG_TIMEOUT = Span(NANOS, 366 * DAY, "1 s to 366 days")
DELAY = Span(0, 366 * DAY, "0 to 366 days")
INTERVAL = Span(1_000_000, 30 * DAY, "1 ms to 30 days")
WAIT = Span(0, 3600 * NANOS, "0 to 1 hour")


def check_duration(duration: Duration, path: str, found: Violations, span: Span) -> None:
    """A well-formed duration within the span."""
    seconds, nanos = duration.seconds, duration.nanos
    if span.least <= seconds * NANOS + nanos <= span.most and 0 <= nanos < NANOS:
        return
    if abs(seconds) > _MOST_SECONDS or abs(nanos) >= NANOS or seconds * nanos < 0:
        found.add(path, f"is no duration (seconds {seconds}, nanos {nanos})")
    else:
        found.add(path, f"is {(seconds * NANOS + nanos) / NANOS:g} s; it must be {span.shown}")


def check_timestamp(timestamp: Timestamp, path: str, found: Violations) -> None:
    """A point in the years 1 to 9999."""
    seconds, nanos = timestamp.seconds, timestamp.nanos
    if not 0 <= nanos < NANOS:
        found.add(path, f"is no timestamp (nanos {nanos})")
    elif not _FIRST_SECOND <= seconds <= _LAST_SECOND:
        found.add(path, f"must lie in the years 1 to 9999 (seconds {seconds})")


def nanoseconds(duration: Duration) -> int:
    """Its length."""
    return duration.seconds * NANOS + duration.nanos
