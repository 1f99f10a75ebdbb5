"""Who decides about an attempt: begins and ends, time-outs, cancellations, graces, losses.

Of the mesh thread alone, so that a handler that blocks the users' loop is still timed out, and the
first outcome that is known here is the one that counts.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from jobmesh.task import Task
from jobmesh.v1.runner_service_pb2 import Assignment, Report
from jobmesh_runner import outcome
from jobmesh_runner.attempt import Attempt, LeaseKey, Stop, StopKind
from jobmesh_runner.claims import Claims
from jobmesh_runner.messages import Line
from jobmesh_runner.outbox import Outbox, PendingCheckpoint
from jobmesh_runner.pending_steps import PendingStep
from jobmesh_runner.port import ExecutorPort
from jobmesh_runner.pulse import Pulse
from jobmesh_runner.telemetry import Telemetry

log = logging.getLogger(__name__)


class Supervision:
    """See the module.

    :ivar on_ended: called for each attempt that has got its report.
    :ivar on_settled: called whenever a claim has got its report, or is held no longer.
    :param most_waiting: claims that may wait; a dispatcher that sends more gets them back.
    :param cancel_grace: seconds that a handler gets to stop where nobody says otherwise.
    """

    def __init__(
        self,
        tasks: Mapping[str, Task[Any, Any]],
        claims: Claims,
        outbox: Outbox,
        telemetry: Telemetry,
        *,
        most_waiting: int,
        cancel_grace: float,
    ) -> None:
        self._tasks = tasks
        self._claims = claims
        self._outbox = outbox
        self._telemetry = telemetry
        self._most_waiting = most_waiting
        self._cancel_grace = cancel_grace
        self._draining = False
        self._pulse = Pulse(outbox.awaits, self._fell_silent)
        self._left_behind = 0  # on the users' loop
        self._turned_after = 0
        self._executor: ExecutorPort
        self._loop: asyncio.AbstractEventLoop
        self.on_ended: Callable[[], None] = _nothing
        self.on_settled: Callable[[], None] = _nothing

    def bind(self, loop: asyncio.AbstractEventLoop, executor: ExecutorPort) -> None:
        """Work on this loop, and with this executor."""
        self._loop = loop
        self._executor = executor

    @property
    def has_left_behind_on_loop(self) -> bool:
        """Whether a handler was left behind on the users' loop, which has not turned since.

        If it has, whatever blocks it later is another handler, which may yet come to an end.
        """
        return self._turned_after < self._left_behind

    def _turned(self, left_behind: int) -> None:
        """Called on the users' loop; an assignment is atomic."""
        self._turned_after = left_behind

    # What the dispatcher says.

    def assigned(self, assignments: Iterable[Assignment]) -> None:
        """Claims of this runner: to be started in this order."""
        for assignment in assignments:
            attempt = Attempt(assignment, self._tasks.get(assignment.type))
            if self._claims.add(attempt):
                self._take_in(attempt)
        self._executor.fill()

    def _take_in(self, attempt: Attempt) -> None:
        if self._draining or len(self._claims.waiting) >= self._most_waiting:
            self._finish(attempt, outcome.not_begun(attempt.key, _INTERRUPTED))
        elif attempt.task is None:
            log.error("a job of the unknown type %s was assigned", attempt.assignment.type)
            self._finish(attempt, outcome.unknown_type(attempt.key))
        else:
            attempt.taken_at = self._loop.time()
            self._claims.waiting.append(attempt)

    def cancel(self, key: LeaseKey, reason: str, grace: float | None) -> None:
        """Stop its handler; said again and again until it has ended."""
        attempt = self._claims.get(key)
        if attempt is None or attempt.report is not None:
            return
        stop = Stop(StopKind.CANCELLED, reason)
        if self._claims.withdraw(attempt):
            self._finish(attempt, outcome.not_begun(attempt.key, stop))
        else:
            self._stop(attempt, stop, self._cancel_grace if grace is None else grace)

    def lose(self, key: LeaseKey) -> None:
        """Its lease is lost: stop its handler and say nothing more of it."""
        attempt = self._claims.get(key)
        if attempt is None:
            return
        self._outbox.forget(attempt)
        self._claims.drop(attempt)
        self.on_settled()
        if attempt.report is None and not self._claims.withdraw(attempt):
            log.warning("the lease is lost", extra={"job_id": attempt.job_id})
            self._stop(attempt, Stop(StopKind.LOST), self._cancel_grace)

    def came_too_late(self, key: LeaseKey) -> None:
        """A checkpoint or step is not stored: its lease is lost, or its report was there before.

        A report is kept in either case until it is answered itself: it may not be recorded yet.
        """
        attempt = self._claims.get(key)
        if attempt is not None and attempt.report is not None:
            self._outbox.give_up_storing(attempt)
        else:
            self.lose(key)

    def lose_all(self) -> None:
        """The session was ended."""
        for attempt in self._claims.all():
            self.lose(attempt.key)

    def recorded(self, key: LeaseKey) -> None:
        """Its report was recorded: it is over."""
        attempt = self._claims.get(key)
        if attempt is None:
            return
        was_congested = self._outbox.is_congested
        self._outbox.forget(attempt)
        self._claims.drop(attempt)
        self.on_settled()
        if was_congested and not self._outbox.is_congested:
            self._executor.fill()

    # What handlers say.

    def started(self, attempt: Attempt) -> None:
        """Its handler begins; its timeout counts from now."""
        self._outbox.add_started(attempt)
        if attempt.stop is not None:
            return
        self._pulse.watch(attempt)
        limit = self._limit_of(attempt)
        if limit is not None:
            seconds, stop = limit
            attempt.timer = self._loop.call_later(seconds, self._time_out, attempt, stop)

    def _limit_of(self, attempt: Attempt) -> tuple[float, Stop] | None:
        """How long its handler may run from now on, and what it is told then."""
        limits = []
        if (timeout := attempt.timeout_seconds) is not None:
            limits.append((timeout, Stop(StopKind.TIMED_OUT, f"{timeout:g} s")))
        if (left := attempt.time_left) is not None:
            waited = self._loop.time() - attempt.taken_at
            limits.append((max(left - waited, 0.0), Stop(StopKind.DEADLINE)))
        return min(limits, key=lambda limit: limit[0], default=None)

    def ended(self, attempt: Attempt, report: Report | None) -> None:
        """Its handler has ended."""
        self._pulse.forget(attempt)
        if attempt.timer is not None:
            attempt.timer.cancel()
            attempt.timer = None
        if report is not None:
            self._finish(attempt, report)

    def progressed(self, attempt: Attempt) -> None:
        """It has something new to say."""
        self._outbox.add_progress(attempt, self._loop.time())

    def logged(self, attempt: Attempt, line: Line) -> None:
        """It logged."""
        self._outbox.add_line(attempt, line)

    def checkpointed(self, checkpoint: PendingCheckpoint) -> None:
        """It wants a checkpoint stored."""
        self._outbox.add_checkpoint(checkpoint)

    def stepped(self, step: PendingStep) -> None:
        """It asks what a step came to, or wants that stored."""
        self._outbox.add_step(step)

    # The end of the runner.

    def drain(self) -> None:
        """Give back what no handler has begun, now and from now on."""
        self._draining = True
        for attempt in self._claims.withdraw_all():
            self._finish(attempt, outcome.not_begun(attempt.key, _INTERRUPTED))

    def give_back(self, taken_before: float) -> None:
        """Give back what has waited since before then, and what came after it."""
        oldest = self._claims.oldest_waiting()
        if oldest is None or oldest.taken_at >= taken_before:
            return
        for attempt in self._claims.withdraw_all():
            self._finish(attempt, outcome.not_begun(attempt.key, _INTERRUPTED))

    def interrupt_all(self, grace: float) -> None:
        """Tell every handler to stop, and give its job back."""
        for attempt in self._claims.unreported():
            self._stop(attempt, _INTERRUPTED, grace)

    def give_up_loop(self) -> None:
        """The users' loop will not turn again: wait for no handler on it any longer."""
        for attempt in self._claims.unreported():
            if attempt.on_loop and attempt not in self._claims.waiting:
                attempt.stop = attempt.stop or _INTERRUPTED
                self._abandon(attempt)

    def abandon_all(self) -> None:
        """Wait for no handler any longer."""
        for attempt in self._claims.unreported():
            attempt.stop = attempt.stop or _INTERRUPTED
            self._abandon(attempt)

    def _time_out(self, attempt: Attempt, stop: Stop) -> None:
        attempt.timer = None
        self._stop(attempt, stop, self._cancel_grace)

    def _fell_silent(self, attempt: Attempt, timeout: float) -> None:
        self._stop(attempt, Stop(StopKind.SILENT, f"{timeout:g} s"), self._cancel_grace)

    def _stop(self, attempt: Attempt, stop: Stop, grace: float) -> None:
        """Tell the handler, once: what it was told first stands, but for the loss of its lease."""
        known = attempt.stop
        if known is not None and stop.kind is not StopKind.LOST:
            return
        attempt.stop = stop
        self._pulse.forget(attempt)
        if known is None:
            if attempt.timer is not None:
                attempt.timer.cancel()
            attempt.timer = self._loop.call_later(grace, self._abandon, attempt)
        _raise_flag(attempt)
        if attempt.process is not None:
            attempt.process.stop(stop)
        self._executor.stop(attempt)

    def _abandon(self, attempt: Attempt) -> None:
        assert attempt.stop is not None
        log.error(
            "a handler of %s did not stop in time and was %s",
            attempt.assignment.type,
            "killed" if attempt.in_process else "left behind",
            extra={"job_id": attempt.job_id},
        )
        if attempt.timer is not None:
            attempt.timer.cancel()
            attempt.timer = None
        if not attempt.in_process:
            self._telemetry.left_behind(attempt)
        if attempt.on_loop:
            self._left_behind += 1
            self._executor.answer(self._turned, self._left_behind)
        seconds = attempt.seconds_run()
        self._finish(attempt, outcome.abandoned(attempt.key, attempt.stop, seconds))
        if attempt.process is not None:
            attempt.process.kill()
        self._executor.abandon(attempt)

    def _finish(self, attempt: Attempt, report: Report | None) -> None:
        if report is not None and self._outbox.add_report(attempt, report):
            self._telemetry.finished(attempt, report)
            self.on_ended()
            self.on_settled()


_INTERRUPTED = Stop(StopKind.INTERRUPTED)


def _raise_flag(attempt: Attempt) -> None:
    """The flag of a thread is raised from here: the users' loop may be blocked."""
    context = attempt.context
    if context is not None and not attempt.on_loop:
        context.cancelled.reason = attempt.stop.reason if attempt.stop is not None else ""
        context.cancelled.set()


def _nothing() -> None:
    pass
