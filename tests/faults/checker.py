"""Whether a history is one that a mesh may have."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from jobmesh.states import LEASED, WAITING_FOR_TIME
from tests.faults.history import History, Job, Operation, Outcome, Run
from tests.faults.job_rules import LOSES_THE_LEASE, RULES, Case
from tests.faults.processes import Death, Trace

UNEXPECTED = ("INTERNAL", "UNKNOWN", "UNIMPLEMENTED", "DATA_LOSS")


class Violation(NamedTuple):
    """A promise that was broken. `case` has what is known of the job, if it is about one."""

    rule: str
    text: str
    case: Case | None = None


class Interval(NamedTuple):
    """Something that lasted."""

    start: float
    end: float
    name: str


@dataclass(slots=True)
class Observed:
    """All that is known after a run, beside the jobs.

    `limits` are the queues with a limit, `slots` what is counted as running in them. With
    `clock_moved` the database's times of different jobs cannot be compared. No call may take
    longer than `longest_call` seconds. `traces` are counted.
    """

    history: History
    runs: Sequence[Run] = ()
    requests: Mapping[str, str] = field(default_factory=dict)
    limits: Mapping[str, int] = field(default_factory=dict)
    slots: Mapping[str, int] = field(default_factory=dict)
    clock_moved: bool = False
    longest_call: float = float("inf")
    deaths: Sequence[Death] = ()
    traces: Mapping[Trace, int] = field(default_factory=dict)


def check(observed: Observed, jobs: Iterable[Job]) -> list[Violation]:
    """All violations; jobs are taken one by one and may be many."""
    runs, operations = _by_job(observed)
    seen: set[str] = set()
    leases: dict[str, list[Interval]] = defaultdict(list)
    kept: dict[str, list[Interval]] = defaultdict(list)
    counted: dict[str, int] = defaultdict(int)
    excused: set[int] = set()
    violations: list[Violation] = []
    for job in jobs:
        case = Case(job, runs.get(job.id, ()), operations.get(job.id, ()))
        seen.add(job.id)
        counted[job.queue] += job.slot
        if observed.clock_moved:
            excused.update(id(operation) for operation in watched_ahead(case))
        for rule in RULES:
            violations += (Violation(rule.__name__, text, case) for text in rule(case))
        if job.queue in observed.limits:
            leases[job.queue] += leased(job)
            kept[job.queue] += kept_runs(case)
    violations += _of_all(observed, seen, operations, excused)
    violations += _of_slots(observed, counted)
    violations += _of_processes(observed)
    for queue, limit in observed.limits.items():
        if not observed.clock_moved:
            violations += _within(f"leases of {queue}", leases[queue], limit)
        violations += _within(f"handlers of {queue}", kept[queue], limit)
    return violations


def _by_job(observed: Observed) -> tuple[dict[str, list[Run]], dict[str, list[Operation]]]:
    runs: dict[str, list[Run]] = defaultdict(list)
    # A runner that lost its lease may begin an attempt after the one that replaced it.
    for run in sorted(observed.runs, key=lambda run: (run.attempt, run.start)):
        runs[run.job_id].append(run)
    operations: dict[str, list[Operation]] = defaultdict(list)
    for operation in observed.history.operations:
        for job_id in operation.job_ids:
            operations[job_id].append(operation)
    return runs, operations


def _of_all(
    observed: Observed,
    seen: set[str],
    operations: Mapping[str, Sequence[Operation]],
    excused: set[int],
) -> Iterator[Violation]:
    for job_id in sorted(observed.history.acknowledged() - seen):
        told = "; ".join(map(str, operations[job_id]))
        yield Violation("acknowledged_jobs_exist", f"job {job_id} is gone: {told}")
    for job_id in sorted({run.job_id for run in observed.runs} - seen):
        yield Violation("a_run_has_a_claim", f"a handler ran for job {job_id}, which is not there")
    yield from _of_requests(observed, seen)
    for operation in observed.history.operations:
        if operation.code in UNEXPECTED and id(operation) not in excused:
            yield Violation("errors_are_ours", str(operation))
        if operation.kind != "watch" and operation.ended - operation.began > observed.longest_call:
            yield Violation("calls_end_by_their_deadline", str(operation))


def _of_requests(observed: Observed, seen: set[str]) -> Iterator[Violation]:
    """The same request is the same job, and a refused one is none."""
    answers: dict[str, set[str]] = defaultdict(set)
    refused: dict[str, bool] = {}
    for operation in observed.history.operations:
        for index, request_id in enumerate(operation.request_ids):
            ok = operation.outcome is Outcome.OK
            if ok:
                answers[request_id].add(operation.job_ids[index])
            is_refused = operation.outcome is Outcome.FAILED
            refused[request_id] = refused.get(request_id, True) and is_refused
    for request_id, job_ids in answers.items():
        stored = observed.requests.get(request_id)
        if job_ids != {stored}:
            told = f"request {request_id} was answered with {sorted(job_ids)}, stored is {stored}"
            yield Violation("one_job_a_request", told)
    for request_id, is_refused in refused.items():
        if is_refused and request_id in observed.requests:
            yield Violation("one_job_a_request", f"request {request_id} was refused and stored")
    if strangers := seen - set(observed.requests.values()):
        yield Violation("one_job_a_request", f"nobody submitted {sorted(strangers)[:10]}")


def _of_slots(observed: Observed, counted: Mapping[str, int]) -> Iterator[Violation]:
    for queue in observed.limits:
        if observed.slots.get(queue, 0) != counted.get(queue, 0):
            told = f"{observed.slots.get(queue, 0)} counted, {counted.get(queue, 0)} there"
            yield Violation("slots_are_right", f"running jobs of {queue}: {told}")


def _of_processes(observed: Observed) -> Iterator[Violation]:
    """None ends by itself, nor otherwise than in order, and none meets what it cannot handle."""
    for death in observed.deaths:
        if not death.is_foreseen:
            yield Violation("processes_end_in_order", str(death))
    for trace, number in observed.traces.items():
        if not trace.is_foreseen:
            yield Violation("errors_are_foreseen", f"{number} times {trace}")


def watched_ahead(case: Case) -> Iterator[Operation]:
    """Watches that were given up while their job waited for its time, by a clock that was ahead.

    It began to wait when the watch was long over, as the database saw it: that it waits by the
    database's clock, wherever that goes, is what is promised.
    """
    times = {change.revision: change.time for change in case.job.changes}
    for operation in case.operations:
        if operation.kind == "watch" and operation.seen:
            revision, state = operation.seen[-1]
            if state in WAITING_FOR_TIME and times.get(revision, 0.0) > operation.ended:
                yield operation


def leased(job: Job) -> Iterator[Interval]:
    """From each claim to the end of its lease, by the database's clock."""
    began: float | None = None
    for change in job.changes:
        if change.state in LEASED:
            began = change.time if began is None else began
        elif began is not None:
            yield Interval(began, change.time, job.id)
            began = None
    if began is not None:
        yield Interval(began, float("inf"), job.id)


def kept_runs(case: Case) -> Iterator[Interval]:
    """The runs of attempts that kept their lease to their end, by the handlers' own clock."""
    kept = {a.attempt for a in case.job.attempts if a.outcome not in LOSES_THE_LEASE}
    for run in case.runs:
        if run.attempt in kept and run.end is not None:
            yield Interval(run.start, run.end, case.job.id)


def _within(what: str, intervals: Iterable[Interval], limit: int) -> Iterator[Violation]:
    most, at = most_at_once(intervals)
    if most > limit:
        yield Violation("limits_are_exact", f"{most} {what} at once, and {limit} may be: {at}")


def most_at_once(intervals: Iterable[Interval]) -> tuple[int, list[str]]:
    """The largest number of intervals that hold at one moment, and which; ends are exclusive."""
    moments = [
        moment
        for interval in intervals
        for moment in ((interval.start, 1, interval.name), (interval.end, 0, interval.name))
    ]
    now: list[str] = []
    most: list[str] = []
    for _, begins, name in sorted(moments):
        if begins:
            now.append(name)
            most = list(now) if len(now) > len(most) else most
        elif name in now:
            now.remove(name)
    return len(most), most
