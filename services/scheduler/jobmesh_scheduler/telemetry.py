"""The scheduler's metrics."""

from __future__ import annotations

from typing import Final

from jobmesh.server import metrics

LEADER: Final = metrics.gauge("jobmesh_scheduler_leader", "1 while this process leads, else 0")
EPOCH: Final = metrics.gauge("jobmesh_scheduler_epoch", "The latest epoch that this process saw")
TAKEOVERS: Final = metrics.counter("jobmesh_scheduler_takeovers_total", "Tenures begun here")
RENEWALS: Final = metrics.counter(
    "jobmesh_scheduler_renewals_total",
    "Renewals of leadership, by outcome: renewed, failed (no answer), lost (another one leads)",
    ("outcome",),
)
DUTY_SECONDS: Final = metrics.histogram(
    "jobmesh_scheduler_duty_seconds", "How long one turn of a duty took", ("duty",)
)
DUTY_FAILURES: Final = metrics.counter(
    "jobmesh_scheduler_duty_failures_total", "Turns of a duty that failed", ("duty",)
)
PROMOTED: Final = metrics.counter(
    "jobmesh_scheduler_promoted_total", "Scheduled and retrying jobs queued when due"
)
EXPIRED_JOBS: Final = metrics.counter(
    "jobmesh_scheduler_expired_jobs_total", "Jobs cancelled since they waited for too long"
)
SESSIONS: Final = metrics.gauge("jobmesh_scheduler_sessions", "Live sessions that the leader saw")
EXPIRED: Final = metrics.counter(
    "jobmesh_scheduler_expired_sessions_total", "Silent sessions ended"
)
REQUEUED: Final = metrics.counter(
    "jobmesh_scheduler_requeued_total", "Jobs that went back to their queue with a silent session"
)
RECONCILED: Final = metrics.counter(
    "jobmesh_scheduler_reconciled_total",
    "Repairs, by kind: outbox, wakeup, released, dead_lettered, slots",
    ("kind",),
)
FIRED: Final = metrics.counter(
    "jobmesh_scheduler_firings_total",
    "Times of schedules dealt with as leader, by outcome",
    ("outcome",),
)
LATENESS: Final = metrics.histogram(
    "jobmesh_scheduler_firing_lateness_seconds",
    "How long after its time, with jitter, a firing that was not missed was durable",
)
RETAINED: Final = metrics.counter(
    "jobmesh_scheduler_retention_total",
    "Retention, by kind: partitions_created, partitions_dropped, request_ids_dropped",
    ("kind",),
)


def took_over(epoch: int) -> None:
    """Note that this process leads."""
    LEADER.set(1)
    TAKEOVERS.inc()
    saw_epoch(epoch)


def stood_down() -> None:
    """Note that it no longer does."""
    LEADER.set(0)


def saw_epoch(epoch: int) -> None:
    """Note what the row said."""
    EPOCH.set(epoch)
