"""How much is measured: the real thing, or a look at whether the benchmark itself works."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Scale:
    """Sizes of one run; times in seconds."""

    rounds: int = 3
    publishes: int = 20_000
    rows: int = 20_000
    calls: int = 10_000
    backlog: int = 20_000
    batch: int = 1_000
    limited: int = 1_000
    singles: int = 10_000
    in_flight: int = 64
    latency_rate: int = 50
    latency_seconds: float = 10.0
    drain_timeout: float = 120.0
    schedules: int = 10_000
    schedule_seconds: float = 60.0
    burst: int = 1_000


FULL = Scale()
SMOKE = Scale(
    rounds=1,
    publishes=500,
    rows=500,
    calls=300,
    backlog=500,
    batch=100,
    limited=50,
    singles=200,
    latency_seconds=1.0,
    drain_timeout=60.0,
    schedules=120,
    schedule_seconds=1.5,
    burst=50,
)
