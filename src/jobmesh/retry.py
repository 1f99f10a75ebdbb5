"""How often, and after which waits, a failed job is tried again."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import TYPE_CHECKING

from jobmesh.durations import DurationLike, nanoseconds, seconds

if TYPE_CHECKING:
    from jobmesh.v1.job_pb2 import RetryPolicy

MOST_ATTEMPTS = 1000
MOST_BACKOFF = 100.0
MOST_TYPES = 50
LEAST_INTERVAL = 0.001
MOST_INTERVAL = 30 * 86400.0


class InvalidRetry(ValueError):
    """A setting of a retry policy is out of its bounds; ``field`` says which."""

    def __init__(self, field: str, why: str) -> None:
        self.field = field
        super().__init__(f"Retry.{field} {why}")


@dataclass(frozen=True, kw_only=True)
class Retry:
    """A retry policy. What is left out is the queue's, and failing that the mesh's default.

    The wait before attempt n + 1 is ``initial_interval * backoff_coefficient ** (failures - 1)``,
    at most ``max_interval``, and a random share ``jitter`` of it is taken off.

    :param max_attempts: attempts that may fail, the first included; 1 to 1,000 (mesh: 5).
    :param initial_interval: the first wait, 1 ms to 30 days (mesh: 1 s).
    :param backoff_coefficient: 1 to 100 (mesh: 2).
    :param max_interval: the longest wait, up to 30 days (mesh: 5 min).
    :param jitter: 0, none, to 1, anything from no wait to all of it (mesh: 0.3).
    :param non_retryable_error_types: exceptions, as classes or class names, that are never retried.
    :raises InvalidRetry: a value is out of its bounds.
    """

    max_attempts: int | None = None
    initial_interval: DurationLike | None = None
    backoff_coefficient: float | None = None
    max_interval: DurationLike | None = None
    jitter: float | None = None
    non_retryable_error_types: Collection[str | type[BaseException]] = ()

    def __post_init__(self) -> None:
        _within("max_attempts", self.max_attempts, 1, MOST_ATTEMPTS)
        _within("backoff_coefficient", self.backoff_coefficient, 1, MOST_BACKOFF)
        _within("jitter", self.jitter, 0, 1)
        first = self._interval("initial_interval", self.initial_interval)
        longest = self._interval("max_interval", self.max_interval)
        if first is not None and longest is not None and longest < first:
            raise InvalidRetry("max_interval", "must not be shorter than initial_interval")
        if isinstance(self.non_retryable_error_types, str):
            raise InvalidRetry("non_retryable_error_types", "must be a tuple of types")
        if len(self.non_retryable_error_types) > MOST_TYPES:
            raise InvalidRetry("non_retryable_error_types", f"holds more than {MOST_TYPES} types")
        for name in self.error_types:
            if not 1 <= len(name) <= 200:
                raise InvalidRetry("non_retryable_error_types", "must be names of 1–200 characters")

    @property
    def error_types(self) -> list[str]:
        """Names of the exceptions that are never retried."""
        return [
            error if isinstance(error, str) else error.__name__
            for error in self.non_retryable_error_types
        ]

    def to_proto(self) -> RetryPolicy:
        """The policy with the fields that are set."""
        from jobmesh.v1.job_pb2 import RetryPolicy

        policy = RetryPolicy(non_retryable_error_types=self.error_types)
        for field in ("max_attempts", "backoff_coefficient", "jitter"):
            if getattr(self, field) is not None:
                setattr(policy, field, getattr(self, field))
        for field in ("initial_interval", "max_interval"):
            length = getattr(self, field)
            if length is not None:
                getattr(policy, field).FromNanoseconds(nanoseconds(length, f"Retry.{field}"))
        return policy

    @staticmethod
    def _interval(field: str, value: DurationLike | None) -> float | None:
        if value is None:
            return None
        length = seconds(value, f"Retry.{field}")
        _within(field, length, LEAST_INTERVAL, MOST_INTERVAL)
        return length


def _within(field: str, value: float | None, least: float, most: float) -> None:
    if value is None:
        return
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise InvalidRetry(field, f"must be a number, not {type(value).__name__}")
    if field == "max_attempts" and not isinstance(value, int):
        raise InvalidRetry(field, "must be a whole number")
    if not least <= value <= most:
        raise InvalidRetry(field, f"must be {least:g} to {most:g}, not {value:g}")
