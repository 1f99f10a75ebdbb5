"""Histories made up: a good one of each kind, to be spoilt."""

from __future__ import annotations

from hypothesis import strategies as st

from jobmesh.states import TERMINAL, TRANSITIONS, State
from tests.faults.history import Attempt, Change, Job, Run

OUTCOME_OF = {
    "SUCCEEDED": "SUCCEEDED",
    "CANCELLED": "CANCELLED",
    "DEAD": "FAILED",
    "RETRYING": "FAILED",
    "SCHEDULED": "SNOOZED",
    "QUEUED": "LOST",
}
REASON_OF = {"RETRYING": "FAILED", "DEAD": "FAILED", "SUCCEEDED": "COMPLETED"}
DID = {"SUCCEEDED": "returned", "FAILED": "raised", "LOST": "cancelled"}


@st.composite
def lives(draw: st.DrawFn, most: int = 25) -> tuple[Job, list[Run]]:
    """A job that went through its states as it may, and the runs of its handler."""
    states = [draw(st.sampled_from([State.QUEUED, State.SCHEDULED]))]
    while states[-1] not in TERMINAL or (len(states) < most and draw(st.booleans())):
        following = sorted(TRANSITIONS[states[-1]])
        if len(states) >= most:
            following = [s for s in following if s in TERMINAL] or following
        states.append(draw(st.sampled_from(following)))
    return job_of([str(state) for state in states])


def job_of(states: list[str]) -> tuple[Job, list[Run]]:
    """The job that went through these states, one a second, and its runs."""
    changes: list[Change] = []
    attempts: list[Attempt] = []
    runs: list[Run] = []
    attempt, failures, began = 0, 0, 0.0
    for revision, state in enumerate(states, 1):
        before = changes[-1].state if changes else ""
        attempt += state == "RUNNING"
        began = float(revision) if state == "RUNNING" else began
        reason = "RETRIED" if before in TERMINAL else REASON_OF.get(state, "UNSPECIFIED")
        if before in ("RUNNING", "CANCELLING") and state != "CANCELLING":
            outcome = OUTCOME_OF[state]
            failures += outcome == "FAILED"
            attempts.append(Attempt(attempt, outcome, began, float(revision)))
            end = revision - 0.25
            runs.append(Run("j", attempt, 1, began + 0.25, end, DID.get(outcome, "cancelled")))
        changes.append(Change(revision, state, reason, float(revision), attempt))
    winner = next((a.attempt for a in attempts if a.outcome == "SUCCEEDED"), None)
    job = Job(
        id="j",
        queue="q",
        type="t",
        state=states[-1],
        reason=changes[-1].reason,
        revision=len(states),
        attempt=attempt,
        failures=failures,
        crashes=0,
        slot=False,
        changes=tuple(changes),
        attempts=tuple(attempts),
        result={"attempt": winner} if states[-1] == "SUCCEEDED" else None,
    )
    return job, runs
