"""The runner's metrics. One call for each job, kept cheap: a metric's labels are looked up once."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

from jobmesh.server import metrics
from jobmesh.v1.runner_service_pb2 import Report
from jobmesh_runner.attempt import Attempt

if TYPE_CHECKING:
    from jobmesh_runner.capacity import CapacityTeller
    from jobmesh_runner.claims import Claims
    from jobmesh_runner.executor import Executor
    from jobmesh_runner.outbox import Outbox

_ended = metrics.counter(
    "jobmesh_runner_attempts_total", "Attempts that ended here.", ("type", "outcome")
)
_seconds = metrics.histogram("jobmesh_runner_run_seconds", "How long handlers ran.", ("type",))
_left_behind = metrics.counter(
    "jobmesh_runner_left_behind_total", "Handlers that did not stop in time.", ("type",)
)
_slots = metrics.gauge("jobmesh_runner_slots", "Handlers that may run at once.")
_used = metrics.gauge("jobmesh_runner_slots_used", "Handlers that run.")
_waiting = metrics.gauge("jobmesh_runner_waiting", "Claims that no handler has begun.")
_prefetch = metrics.gauge("jobmesh_runner_prefetch", "Claims that the runner takes ahead.")
_unanswered = metrics.gauge(
    "jobmesh_runner_unanswered_reports", "Reports that the dispatcher has not answered."
)
_attached = metrics.gauge("jobmesh_runner_attached", "Whether the stream to a dispatcher stands.")
_attachments = metrics.counter(
    "jobmesh_runner_attachments_total", "Streams that a dispatcher welcomed."
)
_ends = metrics.counter(
    "jobmesh_runner_attachment_ends_total", "Streams that ended, and why.", ("reason",)
)


@cache
def _ended_child(job_type: str, outcome: str) -> Any:
    return _ended.labels(job_type, outcome)


@cache
def _seconds_child(job_type: str) -> Any:
    return _seconds.labels(job_type)


class Telemetry:
    """What is counted, by event."""

    def __init__(self, slots: int) -> None:
        _slots.set(slots)
        _attached.set(0)

    def finished(self, attempt: Attempt, report: Report) -> None:
        """An attempt has its report."""
        # Only types of the app are labels: others may be without number.
        job_type = attempt.task.name if attempt.task is not None else "unknown"
        _ended_child(job_type, outcome_label(report)).inc()
        if report.run_seconds:
            _seconds_child(job_type).observe(report.run_seconds)

    def left_behind(self, attempt: Attempt) -> None:
        """A handler did not stop in time."""
        _left_behind.labels(attempt.assignment.type).inc()

    def attached(self) -> None:
        """A dispatcher welcomed the runner."""
        _attached.set(1)
        _attachments.inc()

    def detached(self, reason: str) -> None:
        """The stream ended."""
        _attached.set(0)
        _ends.labels(reason).inc()

    def watch(
        self, executor: Executor, claims: Claims, capacity: CapacityTeller, outbox: Outbox
    ) -> None:
        """Ask these how much is in hand whenever the metrics are read."""
        _used.set_function(lambda: executor.used)
        _waiting.set_function(lambda: len(claims.waiting))
        _prefetch.set_function(lambda: capacity.prefetch)
        _unanswered.set_function(lambda: outbox.unanswered)


def outcome_label(report: Report) -> str:
    """The outcome as a metric's label."""
    kind = report.WhichOneof("outcome") or "unknown"
    return "timed_out" if kind == "failed" and report.failed.timed_out else kind
