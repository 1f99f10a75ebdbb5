"""What a dispatcher's messages mean: which part is told what."""

from __future__ import annotations

from google.protobuf.duration_pb2 import Duration

from jobmesh.v1.runner_service_pb2 import Cancellation, Lease, ReportStatus, StepAck, WorkResponse
from jobmesh_runner.attempt import LeaseKey
from jobmesh_runner.outbox import Outbox
from jobmesh_runner.supervision import Supervision


class Inbound:
    """Handles the messages about claims; those about the stream itself are the attachment's."""

    def __init__(self, supervision: Supervision, outbox: Outbox) -> None:
        self._supervision = supervision
        self._outbox = outbox

    def handle(self, response: WorkResponse) -> None:
        """Act on one message."""
        kind = response.WhichOneof("message")
        if kind == "assignments":
            self._supervision.assigned(response.assignments.jobs)
        elif kind == "report_acks":
            self._on_report_acks(response)
        elif kind == "checkpoint_ack":
            self._on_checkpoint_ack(response)
        elif kind == "step_ack":
            self._on_step_ack(response.step_ack)
        elif kind == "cancellations":
            for cancellation in response.cancellations.cancellations:
                self._supervision.cancel(
                    _key(cancellation.lease), cancellation.reason, _grace(cancellation)
                )
        elif kind == "lost":
            for lease in response.lost.leases:
                self._supervision.lose(_key(lease))

    def _on_report_acks(self, response: WorkResponse) -> None:
        for ack in response.report_acks.acks:
            # Lost or recorded, it is over: its handler has ended already.
            self._supervision.recorded(_key(ack.lease))

    def _on_checkpoint_ack(self, response: WorkResponse) -> None:
        ack = response.checkpoint_ack
        if ack.status == ReportStatus.REPORT_STATUS_LEASE_LOST:
            self._supervision.came_too_late(_key(ack.lease))
        else:
            self._outbox.checkpoint_stored(_key(ack.lease), ack.sequence)

    def _on_step_ack(self, ack: StepAck) -> None:
        if ack.status == ReportStatus.REPORT_STATUS_LEASE_LOST:
            self._supervision.came_too_late(_key(ack.lease))
        else:
            self._outbox.step_answered(_key(ack.lease), ack)


def _key(lease: Lease) -> LeaseKey:
    return lease.job_id, lease.attempt


def _grace(cancellation: Cancellation) -> float | None:
    return seconds_of(cancellation.grace) if cancellation.HasField("grace") else None


def seconds_of(duration: Duration) -> float:
    """A protobuf duration in seconds."""
    return duration.seconds + duration.nanos / 1e9
