"""How long a failed job waits, and whether it is tried again: exponential backoff with jitter.

The wait is `cap × (1 - jitter × u)` with `cap = min(max_interval, initial_interval × coefficient **
(failures - 1))` and `u` uniform in [0, 1): with a jitter of 1 this is the "full jitter" of the AWS
Architecture Blog, "Exponential Backoff And Jitter" (2015). The default is less: with full jitter
four of five jobs would use up their five attempts within the ten seconds that a dependency takes to
restart (docs/decisions/0009-retry-jitter.md).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from google.protobuf.duration_pb2 import Duration

    from jobmesh.v1.job_pb2 import RetryPolicy

MAX_ATTEMPTS = 5
INITIAL_INTERVAL_SECONDS = 1.0
COEFFICIENT = 2.0
MAX_INTERVAL_SECONDS = 300.0
JITTER = 0.3
MAX_CRASHES = 3


def max_attempts(policy: RetryPolicy) -> int:
    """Attempts that may fail, the first one included."""
    return policy.max_attempts if policy.HasField("max_attempts") else MAX_ATTEMPTS


def delay_seconds(policy: RetryPolicy, failures: int, u: float) -> float:
    """The wait after the given number of failures (1 or more), for a random `u` in [0, 1)."""
    initial = _seconds(policy.initial_interval) or INITIAL_INTERVAL_SECONDS
    longest = _seconds(policy.max_interval) or max(MAX_INTERVAL_SECONDS, initial)
    coefficient = (
        policy.backoff_coefficient if policy.HasField("backoff_coefficient") else COEFFICIENT
    )
    jitter = policy.jitter if policy.HasField("jitter") else JITTER
    return _capped(initial, coefficient, failures - 1, longest) * (1 - jitter * u)


def _capped(initial: float, coefficient: float, exponent: int, longest: float) -> float:
    try:
        return min(longest, initial * coefficient**exponent)
    except OverflowError:
        return longest


def _seconds(duration: Duration) -> float:
    return duration.seconds + duration.nanos / 1e9
