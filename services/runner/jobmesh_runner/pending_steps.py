"""Steps whose handlers wait to hear what is stored. Of the mesh thread alone."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import Future
from dataclasses import dataclass

from jobmesh.errors import LeaseLost
from jobmesh.outcomes import TooManySteps
from jobmesh.v1.job_pb2 import Payload
from jobmesh.v1.runner_service_pb2 import ReportStatus, StepAck, StepReport, WorkRequest
from jobmesh_runner.attempt import Attempt, LeaseKey

PATIENCE_SECONDS = 5.0


@dataclass
class PendingStep:
    """A step that is asked for, or brought to be stored.

    :ivar result: what it came to; None to ask.
    :ivar done: what is stored after all; None if nothing is.
    """

    attempt: Attempt
    sequence: int
    key: str
    result: Payload | None
    done: Future[Payload | None]
    send_at: float = 0.0  # by the loop's clock: at once, or again if it has no answer

    def message(self) -> WorkRequest:
        """As it travels."""
        return WorkRequest(
            step=StepReport(
                lease=self.attempt.lease, sequence=self.sequence, key=self.key, result=self.result
            )
        )


class PendingSteps:
    """Those of all attempts, until they are answered; sent again if that takes long."""

    def __init__(self) -> None:
        self._steps: dict[LeaseKey, dict[int, PendingStep]] = {}

    def __len__(self) -> int:
        return len(self._steps)

    def __contains__(self, attempt: Attempt) -> bool:
        return attempt.key in self._steps

    def add(self, step: PendingStep) -> None:
        """Its handler waits."""
        self._steps.setdefault(step.attempt.key, {})[step.sequence] = step

    def answered(self, key: LeaseKey, ack: StepAck) -> None:
        """The dispatcher has said what is stored; whoever sent it twice hears it twice."""
        step = self._steps.get(key, {}).pop(ack.sequence, None)
        if step is None:
            return
        if not self._steps[key]:
            del self._steps[key]
        if not step.done.set_running_or_notify_cancel():
            return
        if ack.status == ReportStatus.REPORT_STATUS_REFUSED:
            step.done.set_exception(TooManySteps(step.key))
        else:
            step.done.set_result(ack.result if ack.HasField("result") else step.result)

    def forget(self, attempt: Attempt) -> None:
        """Nothing more will be heard of it."""
        for step in self._steps.pop(attempt.key, {}).values():
            if step.done.set_running_or_notify_cancel():
                step.done.set_exception(LeaseLost(*attempt.key))

    def rewind(self) -> None:
        """On a new stream: all are to be sent again."""
        for step in self._all():
            step.send_at = 0.0

    def next_due(self) -> float | None:
        """When one may be sent."""
        return min((step.send_at for step in self._all()), default=None)

    def take(self, now: float) -> Iterator[WorkRequest]:
        """Those that are due, in their order."""
        for step in self._all():
            if step.send_at <= now:
                step.send_at = now + PATIENCE_SECONDS
                yield step.message()

    def _all(self) -> Iterator[PendingStep]:
        for steps in self._steps.values():
            yield from steps.values()
