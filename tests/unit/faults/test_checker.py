"""The checker finds nothing in a good history, and each way of spoiling one."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import grpc
import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobmesh.errors import InvalidField, JobmeshError, Unavailable
from tests.faults.checker import Interval, Observed, check, most_at_once
from tests.faults.history import Attempt, Change, History, Job, Operation, Outcome, Run
from tests.faults.job_rules import KEPT_ATTEMPTS, KEPT_CHANGES, RULES
from tests.unit.faults.examples import job_of, lives

LOST_ONCE = ["QUEUED", "RUNNING", "QUEUED", "RUNNING", "SUCCEEDED"]
FAILED_ONCE = ["QUEUED", "RUNNING", "RETRYING", "QUEUED", "RUNNING", "SUCCEEDED"]


def operation(kind: str, **fields: Any) -> Operation:
    given: dict[str, Any] = {"ended": 1.0, "outcome": Outcome.OK, "job_ids": ("j",)}
    return Operation(0, kind, 0.0, **given | fields)


def found(job: Job, runs: Sequence[Run] = (), *operations: Operation) -> set[str]:
    """The rules that are broken."""
    observed = Observed(
        History(list(operations)), runs=runs, requests={"r": "j"}, limits={"q": 1}, longest_call=30
    )
    return {violation.rule for violation in check(observed, [job])}


@given(lives())
def test_what_may_happen_is_no_violation(life: tuple[Job, list[Run]]) -> None:
    job, runs = life
    watch = operation("watch", seen=[(c.revision, c.state) for c in job.changes])
    retries = [operation("retry") for change in job.changes if change.reason == "RETRIED"]
    assert found(job, runs, watch, operation("submit", request_ids=("r",)), *retries) == set()


@given(lives(), st.randoms(use_true_random=False))
def test_a_lost_or_repeated_change_is_found(
    life: tuple[Job, list[Run]], chance: random.Random
) -> None:
    job, runs = life
    changes = list(job.changes)
    place = chance.randrange(len(changes))
    spoilt = changes[:place] + changes[place + 1 :]
    if chance.random() < 0.5:
        spoilt = [*changes[: place + 1], *changes[place:]]
    assert "revisions_are_gapless" in found(replace(job, changes=tuple(spoilt)), runs)


def changed(states: list[str], **fields: Any) -> tuple[Job, list[Run]]:
    job, runs = job_of(states)
    return replace(job, **fields), runs


def with_changes(states: list[str], index: int, **fields: Any) -> tuple[Job, list[Run]]:
    job, runs = job_of(states)
    changes = list(job.changes)
    changes[index] = replace(changes[index], **fields)
    return replace(job, changes=tuple(changes)), runs


def with_attempts(states: list[str], index: int, **fields: Any) -> tuple[Job, list[Run]]:
    job, runs = job_of(states)
    attempts = list(job.attempts)
    attempts[index] = replace(attempts[index], **fields)
    return replace(job, attempts=tuple(attempts)), runs


def with_runs(states: list[str], index: int, **fields: Any) -> tuple[Job, list[Run]]:
    job, runs = job_of(states)
    runs[index] = replace(runs[index], **fields)
    return job, runs


def completed_twice() -> tuple[Job, list[Run]]:
    job, runs = job_of([*LOST_ONCE[:-1], "SUCCEEDED"])
    return replace(
        job, attempts=(replace(job.attempts[0], outcome="SUCCEEDED"), job.attempts[1])
    ), runs


def recorded_twice() -> tuple[Job, list[Run]]:
    job, runs = job_of(LOST_ONCE)
    return replace(job, attempts=(*job.attempts, job.attempts[-1])), runs


def ran_twice() -> tuple[Job, list[Run]]:
    job, runs = job_of(LOST_ONCE)
    return job, [*runs, replace(runs[-1], process=2)]


def checkpoint_forgotten() -> tuple[Job, list[Run]]:
    job, runs = job_of(LOST_ONCE)
    return job, [replace(runs[0], acknowledged=3), replace(runs[1], restored=2)]


SPOILT: list[tuple[str, Callable[[], tuple[Job, list[Run]]]]] = [
    ("ended", lambda: job_of(["QUEUED", "RUNNING"])),
    ("revisions_are_gapless", lambda: changed(LOST_ONCE, revision=6)),
    ("transitions_are_known", lambda: job_of(["RUNNING", "SUCCEEDED"])),
    ("transitions_are_known", lambda: changed(LOST_ONCE, state="DEAD")),
    ("transitions_are_known", lambda: with_changes(LOST_ONCE, 2, state="CANCELLED")),
    ("transitions_are_known", lambda: job_of(["QUEUED", "SUCCEEDED"])),
    ("attempts_grow", lambda: with_changes(LOST_ONCE, 3, attempt=1)),
    ("attempts_grow", lambda: changed(LOST_ONCE, attempt=3)),
    ("one_result_an_attempt", completed_twice),
    ("one_result_an_attempt", recorded_twice),
    ("one_result_an_attempt", lambda: changed(LOST_ONCE, attempts=())),
    ("one_result_an_attempt", lambda: with_attempts(LOST_ONCE, 1, attempt=1)),
    ("attempts_do_not_overlap", lambda: with_attempts(LOST_ONCE, 0, end=4.5)),
    ("attempts_do_not_overlap", lambda: with_attempts(LOST_ONCE, 0, end=1.5)),
    ("charges_are_right", lambda: changed(FAILED_ONCE, failures=2)),
    ("charges_are_right", lambda: with_changes(LOST_ONCE, 2, reason="CRASHED")),
    ("charges_are_right", lambda: changed(["QUEUED", "DEAD"], reason="MAX_DELIVER", crashes=1)),
    ("charges_are_right", lambda: changed(FAILED_ONCE, labels={"falls": "2", "most": "5"})),
    ("charges_are_right", lambda: changed(FAILED_ONCE, labels={"falls": "1", "most": "1"})),
    ("a_run_has_a_claim", lambda: with_runs(LOST_ONCE, 1, attempt=3)),
    ("a_run_has_a_claim", ran_twice),
    ("a_result_has_a_run", lambda: (job_of(LOST_ONCE)[0], [])),
    ("a_result_has_a_run", lambda: with_runs(LOST_ONCE, 1, outcome="raised")),
    ("a_result_has_a_run", lambda: changed(LOST_ONCE, result={"attempt": 1})),
    ("runs_do_not_overlap", lambda: with_runs(FAILED_ONCE, 0, end=5.5)),
    ("runs_do_not_overlap", lambda: with_runs(FAILED_ONCE, 0, end=None)),
    ("checkpoints_are_durable", checkpoint_forgotten),
    ("slots_are_right", lambda: changed(LOST_ONCE, slot=True)),
]


@pytest.mark.parametrize(("rule", "make"), SPOILT)
def test_each_violation_is_found(rule: str, make: Callable[[], tuple[Job, list[Run]]]) -> None:
    assert rule in found(*make())


def test_every_rule_of_a_job_has_been_broken_here() -> None:
    broken = {rule for rule, _ in SPOILT}
    by_calls = {"watchers_see_everything", "calls_had_their_effect"}
    assert {rule.__name__ for rule in RULES} == (broken - {"slots_are_right"}) | by_calls


def test_a_lost_attempt_that_begins_late_is_no_violation() -> None:
    job, (lost, kept) = job_of(LOST_ONCE)
    late = replace(lost, start=5.5, end=5.6)
    assert found(job, [replace(kept, acknowledged=3), late]) == set()


SEEN = [(1, "QUEUED"), (2, "RUNNING"), (3, "SUCCEEDED")]
CALLS: list[tuple[str, Operation]] = [
    ("watchers_see_everything", operation("watch", seen=[(1, "QUEUED"), (3, "SUCCEEDED")])),
    ("watchers_see_everything", operation("watch", seen=[(1, "SCHEDULED")])),
    ("watchers_see_everything", operation("watch", seen=[(1, "QUEUED"), (2, "RUNNING")])),
    ("watchers_see_everything", operation("watch")),
    ("watchers_see_everything", operation("watch", seen=[*SEEN, (4, "DEAD")])),
    ("calls_had_their_effect", operation("retry")),
    ("calls_had_their_effect", operation("cancel")),
    (
        "calls_had_their_effect",
        operation("get", outcome=Outcome.FAILED, code="NOT_FOUND", error="no such job"),
    ),
    ("errors_are_ours", operation("get", outcome=Outcome.UNKNOWN, code="INTERNAL", error="bug")),
    ("calls_end_by_their_deadline", operation("get", ended=99.0)),
    ("acknowledged_jobs_exist", operation("submit", request_ids=("x",), job_ids=("gone",))),
    ("one_job_a_request", operation("submit", request_ids=("r",), job_ids=("k",))),
    ("one_job_a_request", operation("submit", request_ids=("r",), outcome=Outcome.FAILED)),
]


@pytest.mark.parametrize(("rule", "call"), CALLS)
def test_each_false_answer_is_found(rule: str, call: Operation) -> None:
    job, runs = job_of(["QUEUED", "RUNNING", "SUCCEEDED"])
    assert rule in found(job, runs, call)


def test_a_watch_that_came_to_no_end_may_have_seen_nothing() -> None:
    job, runs = job_of(["QUEUED", "RUNNING", "SUCCEEDED"])
    for seen in ([], SEEN[:2]):
        watch = operation("watch", seen=seen, outcome=Outcome.UNKNOWN, code="UNAVAILABLE")
        assert found(job, runs, watch) == set()


def test_a_watch_may_have_seen_what_is_kept_no_longer() -> None:
    states = ["QUEUED", *["RUNNING", "QUEUED"] * KEPT_CHANGES, "RUNNING", "SUCCEEDED"]
    whole, runs = job_of(states)
    attempts = whole.attempts[-KEPT_ATTEMPTS:]
    job = replace(whole, changes=whole.changes[-KEPT_CHANGES:], attempts=attempts)
    seen = [(change.revision, change.state) for change in whole.changes]
    assert found(job, runs, operation("watch", seen=seen)) == set()
    seen[-2] = (len(seen) - 1, "CANCELLING")
    assert found(job, runs, operation("watch", seen=seen)) == {"watchers_see_everything"}


def test_a_watch_of_what_waits_by_a_clock_that_was_ahead_may_hang() -> None:
    job, runs = changed(["SCHEDULED", "QUEUED", "RUNNING", "SUCCEEDED"])
    ahead = replace(job.changes[0], time=500.0)
    hangs = {"outcome": Outcome.UNKNOWN, "code": "INTERNAL", "error": "WATCH_HANGS"}
    watch = operation("watch", ended=91.0, seen=[(1, "SCHEDULED")], **hangs)

    def judged(*changes: Change, clock_moved: bool) -> set[str]:
        observed = Observed(History([watch]), runs, {"r": "j"}, clock_moved=clock_moved)
        return {v.rule for v in check(observed, [replace(job, changes=changes)])}

    assert "errors_are_ours" not in judged(ahead, *job.changes[1:], clock_moved=True)
    assert "errors_are_ours" in judged(ahead, *job.changes[1:], clock_moved=False)
    assert "errors_are_ours" in judged(*job.changes, clock_moved=True)
    watch.seen.append((2, "QUEUED"))
    assert "errors_are_ours" in judged(ahead, *job.changes[1:], clock_moved=True)


def test_a_job_that_nobody_submitted_is_found() -> None:
    job, runs = job_of(LOST_ONCE)
    assert "one_job_a_request" in found(replace(job, id="other"), runs)


def test_a_refused_retry_that_was_carried_out_is_found() -> None:
    job, runs = job_of(["QUEUED", "CANCELLED", "QUEUED", "CANCELLED"])
    refused = operation("retry", outcome=Outcome.FAILED, code="FAILED_PRECONDITION")
    assert found(job, runs, refused) == {"calls_had_their_effect"}


def test_more_leases_than_the_limit_are_found() -> None:
    one, _ = job_of(["QUEUED", "RUNNING", "SUCCEEDED"])
    observed = Observed(History(), requests={"a": "j", "b": "k"}, limits={"q": 1})
    rules = {violation.rule for violation in check(observed, [one, replace(one, id="k")])}
    assert "limits_are_exact" in rules
    moved = replace(observed, clock_moved=True)
    rules = {violation.rule for violation in check(moved, [one, replace(one, id="k")])}
    assert "limits_are_exact" not in rules


def test_more_handlers_than_the_limit_are_found_if_their_leases_held() -> None:
    runs = [Run("j", 1, 1, 2.1, 2.9, "returned"), Run("k", 1, 2, 2.2, 2.8, "returned")]
    one, _ = job_of(["QUEUED", "RUNNING", "SUCCEEDED"])
    jobs = [one, replace(one, id="k")]
    observed = Observed(
        History(), runs=runs, requests={"a": "j", "b": "k"}, limits={"q": 1}, clock_moved=True
    )
    assert {violation.rule for violation in check(observed, jobs)} == {"limits_are_exact"}
    lost = replace(one, id="k", attempts=(Attempt(1, "LOST", 2.0, 3.0),))
    rules = {violation.rule for violation in check(observed, [one, lost])}
    assert "limits_are_exact" not in rules


@given(st.lists(st.tuples(st.integers(0, 20), st.integers(1, 10))))
def test_the_most_at_once_is_that_of_the_busiest_second(spans: list[tuple[int, int]]) -> None:
    intervals = [
        Interval(float(start), float(start + length), str(number))
        for number, (start, length) in enumerate(spans)
    ]
    busiest = max(
        (sum(i.start <= second < i.end for i in intervals) for second in range(31)), default=0
    )
    assert most_at_once(intervals)[0] == busiest


@pytest.mark.parametrize(
    ("error", "outcome"),
    [
        (Unavailable("down"), Outcome.UNKNOWN),
        (JobmeshError("late", code=grpc.StatusCode.DEADLINE_EXCEEDED), Outcome.UNKNOWN),
        (InvalidField("job", "no"), Outcome.FAILED),
    ],
)
async def test_an_error_is_a_refusal_only_if_it_is_definite(
    error: JobmeshError, outcome: Outcome
) -> None:
    history = History()
    await refused_submit(history, error)
    async with history.operation("submit") as fine:
        pass
    assert [each.outcome for each in history.operations] == [outcome, Outcome.OK]
    assert fine.number == 1
    assert history.counts() == {("submit", outcome.value): 1, ("submit", "ok"): 1}


async def refused_submit(history: History, error: JobmeshError) -> None:
    async with history.operation("submit"):
        raise error
