"""Steps that wait for their answer."""

from __future__ import annotations

from concurrent.futures import Future

import pytest

from jobmesh import LeaseLost, TooManySteps
from jobmesh.v1.job_pb2 import Payload
from jobmesh.v1.runner_service_pb2 import Assignment, ReportStatus, StepAck
from jobmesh_runner.attempt import Attempt
from jobmesh_runner.pending_steps import PATIENCE_SECONDS, PendingStep, PendingSteps

RECORDED = ReportStatus.REPORT_STATUS_RECORDED


def attempt(job_id: str = "job") -> Attempt:
    return Attempt(Assignment(job_id=job_id, attempt=1), None)


def step(of: Attempt, sequence: int = 1, data: bytes | None = b"1") -> PendingStep:
    result = None if data is None else Payload(data=data)
    return PendingStep(of, sequence, f"key {sequence}", result, Future())


def test_each_is_sent_once_until_its_patience_is_at_an_end() -> None:
    steps, one = PendingSteps(), attempt()
    assert steps.next_due() is None
    steps.add(step(one, 1))
    steps.add(step(one, 2, None))
    first = list(steps.take(100.0))
    assert [(r.step.key, r.step.HasField("result")) for r in first] == [
        ("key 1", True),
        ("key 2", False),
    ]
    assert list(steps.take(100.0)) == []
    assert steps.next_due() == 100.0 + PATIENCE_SECONDS
    assert len(list(steps.take(100.0 + PATIENCE_SECONDS))) == 2
    steps.rewind()
    assert len(list(steps.take(0.0))) == 2


def test_an_answer_tells_what_is_stored() -> None:
    steps, one = PendingSteps(), attempt()
    brought, asked, other = step(one, 1), step(one, 2, None), step(one, 3)
    for pending in (brought, asked, other):
        steps.add(pending)
    assert one in steps
    steps.answered(one.key, StepAck(sequence=1, status=RECORDED))
    steps.answered(one.key, StepAck(sequence=2, status=RECORDED))
    steps.answered(one.key, StepAck(sequence=3, status=RECORDED, result=Payload(data=b"2")))
    steps.answered(one.key, StepAck(sequence=3, status=RECORDED))  # told twice
    assert brought.done.result(0) == Payload(data=b"1")
    assert asked.done.result(0) is None
    assert other.done.result(0) == Payload(data=b"2")
    assert one not in steps
    assert not steps


def test_a_refusal_and_a_lost_lease_are_raised() -> None:
    steps, one, two = PendingSteps(), attempt(), attempt("other")
    refused, lost, kept = step(one, 1), step(one, 2), step(two, 1)
    for pending in (refused, lost, kept):
        steps.add(pending)
    status = ReportStatus.REPORT_STATUS_REFUSED
    steps.answered(one.key, StepAck(sequence=1, status=status))
    steps.forget(one)
    with pytest.raises(TooManySteps):
        refused.done.result(0)
    with pytest.raises(LeaseLost):
        lost.done.result(0)
    assert not kept.done.done()


def test_nobody_is_told_who_has_given_up() -> None:
    steps, one = PendingSteps(), attempt()
    given_up, lost = step(one, 1), step(one, 2)
    for pending in (given_up, lost):
        steps.add(pending)
        pending.done.cancel()
    steps.answered(one.key, StepAck(sequence=1, status=RECORDED))
    steps.forget(one)
    assert not steps
