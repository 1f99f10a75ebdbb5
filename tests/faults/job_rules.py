"""What must hold for each single job: of its changes, its attempts and the runs of its handler."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from jobmesh.states import INITIAL, LEASED, TERMINAL, TRANSITIONS, State
from tests.faults.history import Job, Operation, Outcome, Run

KEPT_CHANGES = 256
KEPT_ATTEMPTS = 100
# A runner may run an attempt to its end, and begin no other, while its lease is over.
LOSES_THE_LEASE = ("LOST", "INTERRUPTED")
MAX_CRASHES = 3


@dataclass(frozen=True, slots=True)
class Case:
    """A job, the runs of its handler in order of their attempts, and what clients did to it."""

    job: Job
    runs: Sequence[Run] = ()
    operations: Sequence[Operation] = ()


Rule = Callable[[Case], Iterator[str]]


def ended(case: Case) -> Iterator[str]:
    """Nothing is stuck."""
    if case.job.state not in TERMINAL:
        yield f"is still {case.job.state}"


def revisions_are_gapless(case: Case) -> Iterator[str]:
    """Revisions grow by exactly one, from 1 to the job's."""
    found = [change.revision for change in case.job.changes]
    first = max(1, case.job.revision - KEPT_CHANGES + 1)
    if found != list(range(first, case.job.revision + 1)):
        yield f"its revision is {case.job.revision}, and its changes are {found}"


def transitions_are_known(case: Case) -> Iterator[str]:
    """Each change is one of the state machine's; out of a terminal state only by a retry."""
    changes = case.job.changes
    if changes and changes[0].revision == 1 and changes[0].state not in INITIAL:
        yield f"it began as {changes[0].state}"
    if changes and changes[-1].state != case.job.state:
        yield f"it is {case.job.state}, and its last change made it {changes[-1].state}"
    for before, after in pairwise(changes):
        if after.state not in TRANSITIONS[State(before.state)]:
            yield f"it went from {before.state} to {after.state} (revision {after.revision})"
        if before.state in TERMINAL and after.reason != "RETRIED":
            yield f"it left {before.state} without a retry (revision {after.revision})"


def attempts_grow(case: Case) -> Iterator[str]:
    """A claim, and only a claim, takes the next number."""
    attempt = 0 if case.job.changes and case.job.changes[0].revision == 1 else None
    for change in case.job.changes:
        if attempt is not None:
            expected = attempt + 1 if change.state == "RUNNING" else attempt
            if change.attempt != expected:
                yield f"revision {change.revision} is of attempt {change.attempt}, not {expected}"
        attempt = change.attempt
    if attempt != case.job.attempt:
        yield f"its attempt is {case.job.attempt}, and its last change is of {attempt}"


def one_result_an_attempt(case: Case) -> Iterator[str]:
    """Each attempt is recorded once, when it ends; what it is recorded as fits the change."""
    job = case.job
    left = [
        after
        for before, after in pairwise(job.changes)
        if before.state in LEASED and after.state != "CANCELLING"
    ]
    recorded = [attempt.attempt for attempt in job.attempts]
    expected = [change.attempt for change in left][-KEPT_ATTEMPTS:]
    if recorded != expected:
        yield f"recorded are attempts {recorded}, and {expected} ended"
        return
    for change, attempt in zip(left[-KEPT_ATTEMPTS:], job.attempts, strict=True):
        if (change.state == "SUCCEEDED") != (attempt.outcome == "SUCCEEDED"):
            yield f"attempt {attempt.attempt} is {attempt.outcome}, and the job {change.state}"


def attempts_do_not_overlap(case: Case) -> Iterator[str]:
    """No recorded attempt begins before the one before it has ended."""
    for attempt in case.job.attempts:
        if attempt.start is not None and attempt.start > attempt.end:
            yield f"attempt {attempt.attempt} ended {attempt.start - attempt.end:.6f} s too early"
    for before, after in pairwise(case.job.attempts):
        begin = after.end if after.start is None else after.start
        if begin < before.end:
            yield f"attempt {after.attempt} began {before.end - begin:.6f} s before the last ended"


def charges_are_right(case: Case) -> Iterator[str]:
    """Failures and crashes are those that happened, and only too many of them bury a job."""
    job = case.job
    if job.was_retried:
        return
    failed = sum(attempt.outcome in ("FAILED", "TIMED_OUT") for attempt in job.attempts)
    if job.state != "CANCELLED" and job.failures != failed:
        yield f"{job.failures} failures are charged, and {failed} attempts failed"
    crashed = sum(change.reason == "CRASHED" for change in job.changes)
    if job.crashes < crashed:
        yield f"{job.crashes} crashes are charged, and {crashed} happened"
    if job.reason in ("CRASHED", "MAX_DELIVER") and job.crashes <= MAX_CRASHES:
        yield f"it is {job.state} by {job.reason} after {job.crashes} crashes"
    if falls := job.labels.get("falls"):
        yield from _fell(case, int(falls), int(job.labels["most"]))


def _fell(case: Case, falls: int, most: int) -> Iterator[str]:
    """A handler that fails so many times is charged so many, however often it was interrupted."""
    job, expected = case.job, min(falls, most)
    ended_by_itself = job.state == "SUCCEEDED" or job.reason == "FAILED"
    if ended_by_itself and job.failures != expected:
        yield f"{job.failures} failures are charged, and its handler fails {expected} times"
    if ended_by_itself and (job.state == "SUCCEEDED") != (falls < most):
        yield f"it is {job.state}, with {falls} falls of {most}"


def a_run_has_a_claim(case: Case) -> Iterator[str]:
    """No handler runs but for a claim, and none twice for the same."""
    claimed = {change.attempt for change in case.job.changes if change.state == "RUNNING"}
    complete = bool(case.job.changes) and case.job.changes[0].revision == 1
    seen: set[int] = set()
    for run in case.runs:
        if complete and run.attempt not in claimed:
            yield f"its handler ran as attempt {run.attempt}, which nobody claimed"
        if run.attempt in seen:
            yield f"its handler ran twice as attempt {run.attempt}"
        seen.add(run.attempt)


def a_result_has_a_run(case: Case) -> Iterator[str]:
    """What is recorded of an attempt is what its handler did."""
    runs = {run.attempt: run for run in case.runs}
    for attempt in case.job.attempts:
        run = runs.get(attempt.attempt)
        if attempt.outcome in ("SUCCEEDED", "FAILED") and run is None:
            yield f"attempt {attempt.attempt} is {attempt.outcome}, and its handler never ran"
        elif attempt.outcome == "SUCCEEDED" and run is not None and run.outcome != "returned":
            yield f"attempt {attempt.attempt} is SUCCEEDED, its handler {run.outcome or 'hangs'}"
    result = case.job.result
    if case.job.state == "SUCCEEDED" and isinstance(result, dict):
        winner = next((a.attempt for a in case.job.attempts if a.outcome == "SUCCEEDED"), None)
        if not case.job.was_retried and result.get("attempt") != winner:
            yield f"attempt {winner} succeeded, and the result is of {result.get('attempt')}"


def runs_do_not_overlap(case: Case) -> Iterator[str]:
    """Two attempts run at once only if the earlier one's lease was lost."""
    lost = {a.attempt for a in case.job.attempts if a.outcome in LOSES_THE_LEASE}
    for before, after in pairwise(case.runs):
        if before.attempt not in lost and (before.end is None or before.end > after.start):
            yield f"attempt {after.attempt} began while {before.attempt}, not lost, was running"


def checkpoints_are_durable(case: Case) -> Iterator[str]:
    """A later attempt goes on at the last step that was acknowledged, or further on."""
    acknowledged = 0
    for run in case.runs:
        if run.restored < acknowledged:
            yield (
                f"attempt {run.attempt} went on at step {run.restored}, "
                f"and step {acknowledged} was acknowledged"
            )
        acknowledged = max(acknowledged, run.acknowledged)


def watchers_see_everything(case: Case) -> Iterator[str]:
    """A watcher sees every change in order without a gap, and at last the end."""
    for operation in case.operations:
        if operation.kind == "watch":
            told = f"watch #{operation.number}"
            yield from (f"{told} {wrong}" for wrong in _watched(case.job, operation))


def _watched(job: Job, watch: Operation) -> Iterator[str]:
    revisions = [revision for revision, _ in watch.seen]
    if revisions != list(range(1, len(revisions) + 1)):
        yield f"saw revisions {revisions}"
    kept = {change.revision: change.state for change in job.changes}
    first = min(kept, default=1)  # what came before it is not known any more
    wrong = [(r, state) for r, state in watch.seen if r >= first and kept.get(r) != state]
    if wrong:
        yield f"saw what did not happen: {wrong}"
    if watch.outcome is Outcome.OK and not watch.seen:
        yield "saw nothing, and ended"
    elif watch.outcome is Outcome.OK and watch.seen[-1][1] not in TERMINAL:
        yield f"ended at {watch.seen[-1]}"


def calls_had_their_effect(case: Case) -> Iterator[str]:
    """What was acknowledged was done, what was refused was not, and a job that exists is found."""
    retries = [o for o in case.operations if o.kind == "retry"]
    retried = sum(change.reason == "RETRIED" for change in case.job.changes)
    done = sum(o.outcome is Outcome.OK for o in retries)
    perhaps = sum(o.outcome is not Outcome.FAILED for o in retries)
    if not done <= retried <= perhaps:
        yield f"retried {retried} times; {done} retries were acknowledged, {perhaps} not refused"
    states = {change.state for change in case.job.changes}
    for operation in case.operations:
        if operation.code == "NOT_FOUND":
            yield f"{operation.kind} #{operation.number} did not find it"
        if (
            operation.kind == "cancel"
            and operation.outcome is Outcome.OK
            and not (states & {"CANCELLING", "CANCELLED"})
        ):
            yield f"cancel #{operation.number} was acknowledged and left no trace"


RULES: tuple[Rule, ...] = (
    ended,
    revisions_are_gapless,
    transitions_are_known,
    attempts_grow,
    one_result_an_attempt,
    attempts_do_not_overlap,
    charges_are_right,
    a_run_has_a_claim,
    a_result_has_a_run,
    runs_do_not_overlap,
    checkpoints_are_durable,
    watchers_see_everything,
    calls_had_their_effect,
)
