from __future__ import annotations

import itertools
import logging
from concurrent.futures import Future
from dataclasses import dataclass, field

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, invariant, rule

from jobmesh.errors import LeaseLost
from jobmesh.v1.job_pb2 import LogLevel, Payload
from jobmesh.v1.runner_service_pb2 import Report, WorkRequest
from jobmesh_runner import outbox as module
from jobmesh_runner.attempt import Attempt, LeaseKey
from jobmesh_runner.claims import Claims
from jobmesh_runner.messages import Line
from jobmesh_runner.outbox import Outbox, PendingCheckpoint
from jobmesh_runner.progress_pace import INTERVAL_SECONDS
from tests.unit.runner.claims_of import attempt, report, say


@dataclass
class Box:
    """An outbox with claims, and all that it gave."""

    claims: Claims = field(default_factory=Claims)

    def __post_init__(self) -> None:
        self.outbox = Outbox(self.claims)

    def hold(self, *attempts: Attempt) -> None:
        for one in attempts:
            assert self.claims.add(one)

    def kinds(self, now: float = 0.0) -> list[str]:
        return [str(request.WhichOneof("message")) for request in self.outbox.take(now)]


@pytest.fixture
def box() -> Box:
    return Box()


def checkpoint(claim: Attempt, sequence: int) -> PendingCheckpoint:
    return PendingCheckpoint(claim, sequence, Payload(data=b"{}"), Future())


def test_nothing_gives_nothing(box: Box) -> None:
    assert box.outbox.take(0.0) == []
    assert box.outbox.next_due() is None


def test_what_gathered_goes_out_in_the_order_of_a_life(box: Box) -> None:
    first, second = attempt(1), attempt(2)
    box.hold(first, second)
    box.outbox.add_report(second, report(second))
    box.outbox.add_checkpoint(checkpoint(first, 1))
    say(first, 0.5)
    box.outbox.add_progress(first, 0.0)
    box.outbox.add_line(first, Line(logging.INFO, "hello", 0))
    box.outbox.add_started(first)
    box.outbox.set_capacity(1, 2, draining=False)

    assert box.kinds() == ["capacity", "started", "logs", "progress", "checkpoint", "reports"]
    assert box.kinds() == []


def test_a_report_makes_its_start_superfluous(box: Box) -> None:
    claim = attempt()
    box.hold(claim)
    box.outbox.add_started(claim)
    box.outbox.add_report(claim, report(claim))

    assert box.kinds() == ["reports"]


def test_the_first_outcome_counts(box: Box) -> None:
    claim = attempt()
    box.hold(claim)
    first = report(claim)

    assert box.outbox.add_report(claim, first)
    assert not box.outbox.add_report(claim, report(claim, size=9))
    assert claim.report is first


def test_a_claim_that_is_not_held_has_no_say(box: Box) -> None:
    claim = attempt()
    pending = checkpoint(claim, 1)

    assert not box.outbox.add_report(claim, report(claim))
    box.outbox.add_line(claim, Line(logging.INFO, "late", 0))
    box.outbox.add_checkpoint(pending)

    assert box.kinds() == []
    with pytest.raises(LeaseLost):
        pending.done.result(0)


def test_the_last_progress_travels_with_the_report(box: Box) -> None:
    claim = attempt()
    box.hold(claim)
    say(claim, 0.1)
    box.outbox.add_progress(claim, 0.0)
    assert box.kinds(0.0) == ["progress"]
    say(claim, 1.0)
    box.outbox.add_progress(claim, 0.01)
    box.outbox.add_report(claim, report(claim))

    [request] = box.outbox.take(0.01)
    assert request.reports.reports[0].progress.fraction == 1.0
    assert box.kinds(9.0) == []


def test_a_new_stream_hears_again_what_was_not_answered(box: Box) -> None:
    ended, runs, waits = attempt(1), attempt(2), attempt(3)
    box.hold(ended, runs, waits)
    box.outbox.add_started(runs)
    box.outbox.add_report(ended, report(ended))
    box.outbox.add_checkpoint(checkpoint(runs, 1))
    say(runs, 0.5)
    box.outbox.add_progress(runs, 0.0)
    sent = box.kinds(0.0)

    box.outbox.rewind(1.0)
    assert box.kinds(1.0) == sent == ["started", "progress", "checkpoint", "reports"]
    box.outbox.forget(ended)
    box.claims.drop(ended)
    box.outbox.checkpoint_stored(runs.key, 1)
    box.outbox.rewind(2.0)
    assert box.kinds(2.0) == ["started", "progress"]


def test_a_checkpoint_without_an_answer_is_sent_again(box: Box) -> None:
    claim = attempt()
    box.hold(claim)
    box.outbox.add_checkpoint(checkpoint(claim, 1))

    assert box.kinds(10.0) == ["checkpoint"]
    assert box.outbox.next_due() == 10.0 + module.CHECKPOINT_PATIENCE
    assert box.kinds(10.0 + module.CHECKPOINT_PATIENCE / 2) == []
    assert box.kinds(10.0 + module.CHECKPOINT_PATIENCE) == ["checkpoint"]


def test_only_the_answer_to_the_latest_checkpoint_counts(box: Box) -> None:
    claim = attempt()
    box.hold(claim)
    first, second = checkpoint(claim, 1), checkpoint(claim, 2)
    box.outbox.add_checkpoint(first)
    box.outbox.add_checkpoint(second)

    box.outbox.checkpoint_stored(claim.key, 1)
    assert first.done.cancelled()
    assert not second.done.done()
    box.outbox.checkpoint_stored(claim.key, 2)
    assert second.done.result(0) is None
    box.outbox.checkpoint_stored(claim.key, 2)


def test_whoever_waits_for_a_checkpoint_hears_of_the_loss(box: Box) -> None:
    claim = attempt(of=3)
    box.hold(claim)
    pending = checkpoint(claim, 1)
    box.outbox.add_checkpoint(pending)
    box.outbox.forget(claim)

    with pytest.raises(LeaseLost, match="attempt 3 no longer holds job job-1"):
        pending.done.result(0)


def test_levels_are_those_of_the_contract(box: Box) -> None:
    claim = attempt()
    box.hold(claim)
    for level in (5, logging.DEBUG, logging.INFO, logging.WARNING, logging.ERROR, 50):
        box.outbox.add_line(claim, Line(level, "", 0))

    [request] = box.outbox.take(0.0)
    assert [line.level for line in request.logs.lines] == [
        LogLevel.LOG_LEVEL_DEBUG,
        LogLevel.LOG_LEVEL_DEBUG,
        LogLevel.LOG_LEVEL_INFO,
        LogLevel.LOG_LEVEL_WARNING,
        LogLevel.LOG_LEVEL_ERROR,
        LogLevel.LOG_LEVEL_ERROR,
    ]


def test_lines_beyond_what_may_wait_are_counted_and_told(
    box: Box, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MOST_LOG_BYTES", 3 * module.LINE_OVERHEAD)
    claim = attempt()
    box.hold(claim)
    for number in range(10):
        box.outbox.add_line(claim, Line(logging.INFO, str(number), 0))
    [first] = box.outbox.take(0.0)
    box.outbox.add_line(claim, Line(logging.INFO, "on", 0))
    [second] = box.outbox.take(0.0)

    assert [line.message for line in first.logs.lines] == ["0", "1"]
    assert [line.message for line in second.logs.lines] == [
        "8 lines were left out: they came faster than they went",
        "on",
    ]


def test_large_results_travel_in_several_messages_and_hold_up_further_handlers(
    box: Box, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MESSAGE_BYTES", 1000)
    monkeypatch.setattr(module, "MOST_REPORT_BYTES", 5000)
    claims = [attempt(number) for number in range(10)]
    box.hold(*claims)
    for claim in claims:
        box.outbox.add_report(claim, report(claim, size=600))

    requests = box.outbox.take(0.0)
    assert [len(request.reports.reports) for request in requests] == [2] * 5
    assert box.outbox.is_congested
    for claim in claims[:5]:
        box.outbox.forget(claim)
        box.claims.drop(claim)
    assert not box.outbox.is_congested


def test_many_small_reports_are_split_by_number(box: Box) -> None:
    claims = [attempt(number) for number in range(module.MESSAGE_ITEMS + 1)]
    box.hold(*claims)
    for claim in claims:
        box.outbox.add_report(claim, report(claim))

    assert [len(r.reports.reports) for r in box.outbox.take(0.0)] == [module.MESSAGE_ITEMS, 1]


class OutboxMachine(RuleBasedStateMachine):
    """Whatever happens in whatever order: no report is lost, none is said under two outcomes, no
    claim is told twice on one stream, and progress keeps its pace.
    """

    attempts = Bundle("attempts")

    def __init__(self) -> None:
        super().__init__()
        self.box = Box()
        self.now = 0.0
        self.number = 0
        self.told: dict[LeaseKey, Report] = {}
        self.on_this_stream: set[LeaseKey] = set()
        self.answered: set[LeaseKey] = set()
        self.progressed_at: dict[LeaseKey, list[float]] = {}

    @rule(target=attempts)
    def assign(self) -> Attempt:
        self.number += 1
        claim = attempt(self.number)
        self.box.hold(claim)
        return claim

    @rule(claim=attempts)
    def start(self, claim: Attempt) -> None:
        if not claim.started and claim in self.box.claims:
            self.box.outbox.add_started(claim)

    @rule(claim=attempts, size=st.integers(0, 5))
    def end(self, claim: Attempt, size: int) -> None:
        self.box.outbox.add_report(claim, report(claim, size=size))

    @rule(claim=attempts, fraction=st.floats(0, 1))
    def progress(self, claim: Attempt, fraction: float) -> None:
        waited = claim.progress_waits
        say(claim, fraction)
        if not waited:
            self.box.outbox.add_progress(claim, self.now)

    @rule(seconds=st.floats(0, 0.3))
    def wait(self, seconds: float) -> None:
        self.now += seconds

    @rule()
    def take(self) -> None:
        for request in self.box.outbox.take(self.now):
            self._hear(request)

    def _hear(self, request: WorkRequest) -> None:
        for said in request.reports.reports:
            key = (said.job_id, said.attempt)
            assert key not in self.on_this_stream
            assert self.told.setdefault(key, said) == said
            self.on_this_stream.add(key)
        for lease in request.started.leases:
            assert (lease.job_id, lease.attempt) not in self.on_this_stream
        for progress in request.progress.reports:
            key = (progress.lease.job_id, progress.lease.attempt)
            self.progressed_at.setdefault(key, []).append(self.now)

    @rule(claim=attempts)
    def answer(self, claim: Attempt) -> None:
        if claim.key in self.on_this_stream:
            self.answered.add(claim.key)
            self.box.outbox.forget(claim)
            self.box.claims.drop(claim)

    @rule(claim=attempts)
    def lose(self, claim: Attempt) -> None:
        self.answered.add(claim.key)
        self.box.outbox.forget(claim)
        self.box.claims.drop(claim)

    @rule()
    def reattach(self) -> None:
        self.on_this_stream = set()
        self.box.outbox.rewind(self.now)

    @invariant()
    def every_claim_is_named_until_it_is_answered(self) -> None:
        held = {(lease.job_id, lease.attempt) for lease in self.box.claims.leases()}
        assert not held & self.answered
        assert self.told.keys() - self.answered <= held

    @invariant()
    def progress_keeps_its_pace(self) -> None:
        for times in self.progressed_at.values():
            for earlier, later in itertools.pairwise(times):
                assert later - earlier >= INTERVAL_SECONDS - 1e-9

    def teardown(self) -> None:
        self.reattach()
        self.take()
        reported = {a.key for a in self.box.claims.all() if a.report is not None}
        assert self.on_this_stream == reported
        assert self.box.outbox.unanswered == len(reported)


TestOutboxMachine = OutboxMachine.TestCase
TestOutboxMachine.settings = settings(max_examples=150, stateful_step_count=40)
