"""Times and durations of the contract as Python's own, and back."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from google.protobuf.duration_pb2 import Duration
from google.protobuf.timestamp_pb2 import Timestamp


def to_datetime(stamp: Timestamp) -> datetime:
    """An aware time in UTC, to the microsecond."""
    return stamp.ToDatetime(tzinfo=UTC)


def to_timestamp(time: datetime, name: str = "the time") -> Timestamp:
    """A time on the wire; errors call it `name`.

    Raises:
        ValueError: it is no time, or has no zone, so that nobody can tell when it is.
    """
    if not isinstance(time, datetime):
        raise ValueError(f"{name}: must be a datetime, e.g. datetime.now(UTC), not {time!r}")
    if time.tzinfo is None:
        raise ValueError(f"{name}: {time.isoformat()} has no time zone; use datetime.now(UTC)")
    stamp = Timestamp()
    stamp.FromDatetime(time)
    return stamp


def to_duration(length: timedelta) -> Duration:
    """A duration on the wire."""
    duration = Duration()
    duration.FromTimedelta(length)
    return duration
