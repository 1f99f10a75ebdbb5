"""What is to be sent to the dispatcher, and what it has not answered yet. Of the mesh thread alone.

:meth:`Outbox.take` makes messages of everything that gathered since the last write; there is no
timer but the pace of progress. Reports, checkpoints and steps are kept until they are answered, and
sent again on the next stream; logs and progress are not.
"""

from __future__ import annotations

import itertools
import logging
from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future
from dataclasses import dataclass

from jobmesh.v1.job_pb2 import Payload
from jobmesh.v1.runner_service_pb2 import (
    Capacity,
    CheckpointReport,
    ProgressReport,
    Report,
    StepAck,
    WorkRequest,
)
from jobmesh_runner.attempt import Attempt, LeaseKey
from jobmesh_runner.claims import Claims
from jobmesh_runner.lease_loss import lease_lost
from jobmesh_runner.messages import Line, log_report, progress_message
from jobmesh_runner.pending_steps import PendingStep, PendingSteps
from jobmesh_runner.progress_pace import ProgressPace

MESSAGE_ITEMS = 1000
MESSAGE_BYTES = 4 << 20
"""A message ends once it is larger, so that none comes near the limit of 16 MiB."""
MOST_LOG_BYTES = 16 << 20
"""Log lines that wait, over all attempts; beyond, they are counted and left out."""
MOST_REPORTS = 10_000
MOST_REPORT_BYTES = 64 << 20
"""Results that wait for their answer; beyond, no further handler is begun."""
LINE_OVERHEAD = 128
CHECKPOINT_PATIENCE = 5.0
"""Seconds."""


@dataclass
class PendingCheckpoint:
    """A checkpoint that is not known to be durable."""

    attempt: Attempt
    sequence: int
    payload: Payload
    done: Future[None]
    send_at: float = 0.0  # by the loop's clock: at once, or again if it has no answer


class Outbox:
    """See the module."""

    def __init__(self, claims: Claims) -> None:
        self._claims = claims
        self._started: list[Attempt] = []
        self._unsent: dict[LeaseKey, Attempt] = {}  # with a report
        self._sent: dict[LeaseKey, Attempt] = {}
        self._report_bytes = 0
        self._progress = ProgressPace()
        self._lines: deque[tuple[Attempt, Line]] = deque()
        self._line_bytes = 0
        self._checkpoints: dict[LeaseKey, PendingCheckpoint] = {}
        self._steps = PendingSteps()
        self._capacity: Capacity | None = None

    @property
    def unanswered(self) -> int:
        """Reports that the dispatcher has not answered."""
        return len(self._unsent) + len(self._sent)

    @property
    def is_congested(self) -> bool:
        """Whether so much waits for its answer that no more should be begun."""
        return self.unanswered >= MOST_REPORTS or self._report_bytes >= MOST_REPORT_BYTES

    def set_capacity(self, slots: int, prefetch: int, *, draining: bool) -> None:
        """What the runner can take has changed; only the latest counts."""
        self._capacity = Capacity(slots=slots, prefetch=prefetch, draining=draining)

    def add_started(self, attempt: Attempt) -> None:
        """Its handler begins."""
        attempt.started = True
        self._started.append(attempt)

    def add_report(self, attempt: Attempt, report: Report) -> bool:
        """It has ended; False if that is known already, or its lease is lost: the first counts."""
        if attempt.report is not None or attempt not in self._claims:
            return False
        if attempt.progress_waits and attempt.latest is not None:
            report.progress.CopyFrom(progress_message(attempt.latest))
        attempt.report = report
        attempt.report_bytes = report.ByteSize()
        self._report_bytes += attempt.report_bytes
        self._unsent[attempt.key] = attempt
        return True

    def add_progress(self, attempt: Attempt, now: float) -> None:
        """It has something new in ``latest``, and raised ``progress_waits``."""
        self._progress.add(attempt, now)

    def add_line(self, attempt: Attempt, line: Line) -> None:
        """It logged. What the budget of all lines does not hold is counted, and told later."""
        size = len(line.message) + LINE_OVERHEAD
        if self._line_bytes + size > MOST_LOG_BYTES or not self._may_speak(attempt):
            attempt.lines_dropped += 1
            return
        if attempt.lines_dropped:
            text = f"{attempt.lines_dropped} lines were left out: they came faster than they went"
            attempt.lines_dropped = 0
            self._append(attempt, Line(logging.WARNING, text, line.time_ns))
        self._append(attempt, line)

    def _append(self, attempt: Attempt, line: Line) -> None:
        self._lines.append((attempt, line))
        self._line_bytes += len(line.message) + LINE_OVERHEAD

    def add_checkpoint(self, checkpoint: PendingCheckpoint) -> None:
        """It wants this stored; a younger one takes the place of an older."""
        attempt = checkpoint.attempt
        if not self._may_speak(attempt):
            lease_lost(attempt, checkpoint.done)
            return
        older = self._checkpoints.get(attempt.key)
        if older is not None:
            older.done.cancel()  # whoever waited for it has given up
        self._checkpoints[attempt.key] = checkpoint

    def add_step(self, step: PendingStep) -> None:
        """It asks what a step came to, or wants it stored."""
        self._steps.add(step)
        if not self._may_speak(step.attempt):
            self._steps.forget(step.attempt)

    def step_answered(self, key: LeaseKey, ack: StepAck) -> None:
        """The dispatcher has said what is stored of a step."""
        self._steps.answered(key, ack)

    def awaits(self, attempt: Attempt) -> bool:
        """Whether its handler may be waiting for the dispatcher."""
        return attempt.key in self._checkpoints or attempt in self._steps

    def _may_speak(self, attempt: Attempt) -> bool:
        return attempt.report is None and attempt in self._claims

    def checkpoint_stored(self, key: LeaseKey, sequence: int) -> None:
        """The dispatcher has made it durable."""
        pending = self._checkpoints.get(key)
        if pending is not None and pending.sequence == sequence:
            del self._checkpoints[key]
            if pending.done.set_running_or_notify_cancel():
                pending.done.set_result(None)

    def forget(self, attempt: Attempt) -> None:
        """Its report was answered, or its lease is lost: nothing more is sent for it."""
        if self._unsent.pop(attempt.key, None) or self._sent.pop(attempt.key, None):
            self._report_bytes -= attempt.report_bytes
        self.give_up_storing(attempt)

    def give_up_storing(self, attempt: Attempt) -> None:
        """Whoever waits for a checkpoint or a step of it is told that the lease is lost."""
        pending = self._checkpoints.pop(attempt.key, None)
        if pending is not None:
            lease_lost(attempt, pending.done)
        self._steps.forget(attempt)

    def rewind(self, now: float) -> None:
        """On a new stream: whatever was not answered is to be sent again."""
        self._unsent = {**self._sent, **self._unsent}
        self._sent = {}
        for pending in self._checkpoints.values():
            pending.send_at = 0.0
        self._steps.rewind()
        running = self._claims.unreported()
        self._started = [attempt for attempt in running if attempt.started]
        for attempt in running:
            if attempt.latest is not None and not attempt.progress_waits:
                attempt.progress_waits = True
                self._progress.add(attempt, now)

    def next_due(self) -> float | None:
        """When something that waits for its time may be sent."""
        times = [pending.send_at for pending in self._checkpoints.values()]
        others = (self._progress.next_due(), self._steps.next_due())
        return min([*times, *(due for due in others if due is not None)], default=None)

    def take(self, now: float) -> list[WorkRequest]:
        """Everything that may be sent now, as messages in the order to send them."""
        requests: list[WorkRequest] = []
        if self._capacity is not None:
            requests.append(WorkRequest(capacity=self._capacity))
            self._capacity = None
        if self._started:
            requests += self._take_started()
        if self._lines:
            requests += self._take_lines()
        requests += self._take_progress(now)
        if self._checkpoints:
            requests += self._take_checkpoints(now)
        if self._steps:
            requests += self._steps.take(now)
        if self._unsent:
            requests += self._take_reports()
        return requests

    def _take_started(self) -> Iterator[WorkRequest]:
        # A report says that its handler had begun: the two need not both be sent.
        begun = iter([a for a in self._started if a.report is None and a in self._claims])
        self._started = []
        while some := list(itertools.islice(begun, MESSAGE_ITEMS)):
            request = WorkRequest()
            request.started.leases.extend(attempt.lease for attempt in some)
            yield request

    def _take_lines(self) -> Iterator[WorkRequest]:
        lines, self._lines, self._line_bytes = self._lines, deque(), 0
        while lines:
            request = WorkRequest()
            for size in _until_full():
                if not lines:
                    break
                attempt, line = lines.popleft()
                size.add(len(line.message) + LINE_OVERHEAD)
                request.logs.lines.append(log_report(attempt, line))
            yield request

    def _take_progress(self, now: float) -> Iterator[WorkRequest]:
        due = iter(self._progress.take(now))
        while some := list(itertools.islice(due, MESSAGE_ITEMS)):
            request = WorkRequest()
            for attempt in some:
                # Lowered first: what the handler says from now on is news again.
                attempt.progress_waits = False
                if attempt.latest is not None and self._may_speak(attempt):
                    request.progress.reports.append(
                        ProgressReport(
                            lease=attempt.lease, progress=progress_message(attempt.latest)
                        )
                    )
            if request.progress.reports:
                yield request

    def _take_checkpoints(self, now: float) -> Iterator[WorkRequest]:
        for pending in self._checkpoints.values():
            if pending.send_at <= now:
                # A dispatcher whose database is away gives no answer: ask again.
                pending.send_at = now + CHECKPOINT_PATIENCE
                yield WorkRequest(
                    checkpoint=CheckpointReport(
                        lease=pending.attempt.lease,
                        sequence=pending.sequence,
                        checkpoint=pending.payload,
                    )
                )

    def _take_reports(self) -> Iterator[WorkRequest]:
        unsent, self._unsent = self._unsent, {}
        self._sent.update(unsent)
        waiting = iter(unsent.values())
        attempt = next(waiting, None)
        while attempt is not None:
            request = WorkRequest()
            reports = request.reports.reports
            for size in _until_full():
                if attempt is None:
                    break
                assert attempt.report is not None
                reports.append(attempt.report)
                size.add(attempt.report_bytes)
                attempt = next(waiting, None)
            yield request


class _Size:
    __slots__ = ("bytes",)

    def __init__(self) -> None:
        self.bytes = 0

    def add(self, size: int) -> None:
        self.bytes += size


def _until_full() -> Iterator[_Size]:
    """Yields as long as a message takes further items; each adds its size."""
    size = _Size()
    for _ in range(MESSAGE_ITEMS):
        yield size
        if size.bytes >= MESSAGE_BYTES:
            return
