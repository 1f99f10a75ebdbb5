"""Times, durations and progress as people read them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from jobmesh.client.info import JobInfo, Progress
from jobmesh.client.states import HoldReason


def when(time: datetime | None) -> str:
    """A local time, to the second."""
    return "" if time is None else f"{time.astimezone():%Y-%m-%d %H:%M:%S}"


def clock(time: datetime | None) -> str:
    """The local time of day; now, if there is none."""
    return f"{(time or datetime.now(UTC)).astimezone():%H:%M:%S}"


def age(time: datetime | None, now: datetime | None = None) -> str:
    """How long ago, e.g. ``3m``; or ``in 3m``, for a time to come."""
    if time is None:
        return ""
    past = ((now or datetime.now(UTC)) - time).total_seconds()
    return f"in {length(-past)}" if past < 0 else length(past)


def length(seconds: float | timedelta) -> str:
    """A duration in its largest unit or two, e.g. ``850ms``, ``4.2s``, ``3m05s``, ``2h10m``."""
    if isinstance(seconds, timedelta):
        seconds = seconds.total_seconds()
    if seconds < 1:
        return f"{seconds * 1000:.0f}ms"
    if seconds < 60:
        return f"{seconds:.1f}s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes}m{rest:02d}s"
    hours, minutes = divmod(minutes, 60)
    return f"{hours}h{minutes:02d}m" if hours < 48 else f"{hours // 24}d{hours % 24:02d}h"


def progress(made: Progress | None) -> str:
    """E.g. ``40% rendering (4,000 of 10,000)``."""
    if made is None:
        return ""
    parts = [f"{made.fraction:.0%}", made.message]
    if made.total:
        parts.append(f"({made.current:,} of {made.total:,})")
    elif made.current:
        parts.append(f"({made.current:,})")
    return " ".join(filter(None, parts))


def took(job: JobInfo) -> str:
    """How long its last attempt ran."""
    if job.start_time is None or job.end_time is None:
        return ""
    return length(max(job.end_time - job.start_time, timedelta()))


def held(job: JobInfo) -> str:
    """What a QUEUED job waits for; empty if nothing holds it."""
    waits_for = {
        HoldReason.NO_RUNNER: f"no runner that knows {job.type} and serves queue {job.queue} has "
        "a free slot",
        HoldReason.MAX_RUNNING: f"queue {job.queue} runs as many jobs as it may",
        HoldReason.QUEUE_PAUSED: f"queue {job.queue} is paused",
    }
    reason = job.hold_reason
    return f"waits, {reason}: {waits_for[reason]}" if reason in waits_for else str(reason)


def why(job: JobInfo) -> str:
    """What holds a job, or ended it."""
    if job.error is not None and not (job.done and job.state == "SUCCEEDED"):
        return str(job.error).split("\n", 1)[0]
    if job.cancel_reason:
        return job.cancel_reason
    return str(job.hold_reason or job.reason)
