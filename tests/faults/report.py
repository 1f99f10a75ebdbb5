"""What a person needs to see of a session."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator

from tests.faults.chaos import Timeline
from tests.faults.checker import Violation
from tests.faults.history import clock
from tests.faults.job_rules import Case
from tests.faults.session import Verdict

MOST_SHOWN = 5


def summary(verdict: Verdict) -> Iterator[str]:
    """The counts of the history, and what was violated."""
    operations = verdict.history.operations
    yield f"operations: {len(operations)}"
    for (kind, outcome), number in sorted(verdict.history.counts().items()):
        yield f"  {number:8}  {kind} {outcome}"
    yield "errors:"
    yield from _table(Counter(f"{o.kind} {o.code} {o.error}"[:150] for o in operations if o.error))
    yield f"acknowledged jobs: {len(verdict.history.acknowledged())}"
    yield f"jobs: {sum(verdict.jobs.values())}, all ended {verdict.settled:.1f} s after the faults"
    yield from _table(verdict.jobs)
    yield f"recorded attempts: {sum(verdict.attempts.values())}; runs of handlers: {verdict.runs}"
    yield from _table(verdict.attempts)
    if verdict.deaths:
        yield f"processes that ended as nobody had them end: {len(verdict.deaths)}"
        yield from (f"  {death}" for death in verdict.deaths)
    if verdict.traces:
        yield "logged with a trace:"
        yield from _table(Counter(map(str, verdict.traces.elements())))
    yield f"violations: {len(verdict.violations)}"
    yield from _table(Counter(violation.rule for violation in verdict.violations))


def _table(counts: Counter[str]) -> Iterator[str]:
    for name, number in sorted(counts.items()):
        yield f"  {number:8}  {name}"


def violations(verdict: Verdict) -> Iterator[str]:
    """Some of each rule, with all that is known of their jobs, and the faults around them."""
    by_rule: dict[str, list[Violation]] = defaultdict(list)
    for violation in verdict.violations:
        by_rule[violation.rule].append(violation)
    for rule, broken in by_rule.items():
        for violation in broken[:MOST_SHOWN]:
            yield ""
            yield from explain(violation, verdict.timeline)
        if len(broken) > MOST_SHOWN:
            yield f"… and {len(broken) - MOST_SHOWN} more of {rule}"


def explain(violation: Violation, timeline: Timeline) -> Iterator[str]:
    """One violation."""
    if violation.case is None:
        yield f"{violation.rule}: {violation.text}"
        return
    job = violation.case.job
    yield f"{violation.rule}: job {job.id} ({job.type}) {violation.text}"
    yield (
        f"  {job.state} {job.reason}, revision {job.revision}, attempt {job.attempt}, "
        f"{job.failures} failures, {job.crashes} crashes, queue {job.queue}, {job.labels}"
    )
    yield from _life(violation.case)
    moments = [change.time for change in job.changes] + [run.start for run in violation.case.runs]
    if moments:
        yield "  faults around it:"
        yield from (f"    {line}" for line in timeline.around(min(moments), max(moments)))


def _life(case: Case) -> Iterator[str]:
    yield "  changes (by the database's clock):"
    for change in case.job.changes:
        yield (
            f"    {clock(change.time)} {change.revision:3} {change.state} {change.reason} "
            f"attempt {change.attempt}"
        )
    yield "  recorded attempts:"
    for attempt in case.job.attempts:
        start = clock(attempt.start) if attempt.start is not None else "not started"
        yield (
            f"    {attempt.attempt}: {start} to {clock(attempt.end)} {attempt.outcome} "
            f"on {attempt.runner}"
        )
    yield "  runs of its handler, in its own words:"
    for run in case.runs:
        end = clock(run.end) if run.end is not None else "…"
        yield (
            f"    {run.attempt}: {clock(run.start)} to {end} {run.outcome} (process {run.process}; "
            f"went on at {run.restored}, stored {run.acknowledged})"
        )
    yield "  calls:"
    for operation in case.operations:
        yield f"    {operation}"
