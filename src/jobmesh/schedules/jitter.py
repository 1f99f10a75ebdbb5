"""How late a firing is on purpose: always the same for one firing, spread evenly over many."""

from __future__ import annotations

from datetime import datetime, timedelta
from hashlib import blake2b

_RANGE = 1 << 64


def share(schedule_id: str, fire_time: datetime) -> float:
    """A number in [0, 1) that depends on the schedule and the firing, and on nothing else."""
    text = f"{schedule_id}\0{fire_time.timestamp():.6f}".encode()
    return int.from_bytes(blake2b(text, digest_size=8).digest()) / _RANGE


def due_time(
    schedule_id: str, fire_time: datetime, jitter: timedelta, next_time: datetime | None
) -> datetime:
    """When a firing is due: up to ``jitter`` late, but never at the time of the next one."""
    room = jitter if next_time is None else min(jitter, next_time - fire_time)
    return fire_time + share(schedule_id, fire_time) * room
