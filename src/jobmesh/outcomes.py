"""What a handler raises to end otherwise than by success or an ordinary failure."""

from __future__ import annotations

from jobmesh.durations import DurationLike, seconds


class Outcome(Exception):
    """The base of these."""


class PermanentError(Outcome):
    """No retry can mend it: the job is DEAD at once."""


class TooManySteps(PermanentError):
    """``job.once`` was called with more keys than a job may have: 1,000."""

    def __init__(self, key: str) -> None:
        self.key = key
        super().__init__(f"step {key!r}: the job has as many steps as it may have")


class RetryLater(Outcome):
    """The attempt failed; the next one waits so many seconds instead of the policy's backoff."""

    def __init__(self, delay: DurationLike, message: str = "") -> None:
        self.delay = seconds(delay, "delay")
        super().__init__(message or f"to be retried in {self.delay:g} s")


class Snooze(Outcome):
    """Not now: the job is run again after so many seconds, and no failure is charged."""

    def __init__(self, delay: DurationLike) -> None:
        self.delay = seconds(delay, "delay")
        super().__init__(f"to be run again in {self.delay:g} s")


class JobCancelled(Outcome):
    """The attempt was told to stop, and stops. ``raise_if_cancelled`` raises it."""
