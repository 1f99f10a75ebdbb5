"""Jobs that begin as they are stored: a few, on runners of this dispatcher that are idle.

Nobody has to be woken for them, so that they take one transaction in place of two, and no message.

* Nothing overtakes what is known to wait: while there is any, all goes through the broker. So do
  more jobs than a few, which the broker spreads over the runners of all dispatchers.
* The room is taken while the transaction is under way, so that no claim gives it away meanwhile.
* The session ended, or the queue was paused or limited meanwhile, or is being changed just now: the
  job is stored as any other.
* The database refuses them as they are claimed, which nobody has foreseen: they are stored without,
  and it is found out which of them it is when they are claimed as any other.
* The answer comes so late that the job may be taken for unknown to its runner by now: it is not
  sent, and the session's slow comparison queues it again.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, cast
from uuid import UUID

from jobmesh.errors import BackendUnavailable
from jobmesh_dispatcher import failpoints
from jobmesh_dispatcher.claiming import Candidate, Seat, spread_out
from jobmesh_dispatcher.store.claim import Claimed
from jobmesh_dispatcher.submission import Submission

if TYPE_CHECKING:
    from asyncpg import Record

    from jobmesh_dispatcher.claims import Claims
    from jobmesh_dispatcher.roster import Roster

MOST_STRAIGHT = 8


class Straight:
    """Deals jobs that are about to be stored to idle runners, and sends them once they are.

    `is_open` tells whether nothing waits that came before.
    """

    def __init__(self, roster: Roster, claims: Claims, is_open: Callable[[], bool]) -> None:
        self._roster = roster
        self._claims = claims
        self._is_open = is_open

    @asynccontextmanager
    async def seats(self, submissions: Sequence[Submission]) -> AsyncIterator[Mapping[UUID, Seat]]:
        """Seats of the jobs that may begin at once; theirs until the end of the block."""
        dealt = self._deal(submissions) if await _is_allowed() else {}
        with self._roster.lend(Counter(seat.session_id for seat in dealt.values())):
            yield dealt

    def _deal(self, submissions: Sequence[Submission]) -> Mapping[UUID, Seat]:
        if len(submissions) > min(self._roster.idle, MOST_STRAIGHT) or not self._is_open():
            return {}
        seats = spread_out(len(submissions), self._roster.seats())
        return {
            submission.job_id: seat
            for submission, seat in zip(submissions, seats, strict=False)
            if _may_begin(submission) and seat.fits(_candidate(submission))
        }

    async def begin(
        self, stored: Iterable[tuple[Submission, Record]], seats: Iterable[Seat], since: float
    ) -> None:
        """Send the jobs that were claimed as they were stored; `since` is monotonic."""
        rows = [_claim(submission, row) for submission, row in stored if row["session_id"]]
        if rows:
            await self._claims.begin(Claimed(cast("list[Record]", rows)), seats, since)


async def _is_allowed() -> bool:
    """But for tests, always."""
    try:
        await failpoints.reach("claim.straight")
    except BackendUnavailable:
        return False
    return True


def _may_begin(submission: Submission) -> bool:
    """Whether it cannot have expired by the time it is claimed."""
    spec = submission.spec
    timed = submission.is_timed or spec.HasField("deadline") or spec.HasField("expires_after")
    return not timed


def _candidate(submission: Submission) -> Candidate:
    spec = submission.spec
    return Candidate(submission.job_id, submission.namespace, spec.queue, spec.type, spec.priority)


def _claim(submission: Submission, row: Record) -> dict[str, Any]:
    """What `claim_jobs.sql` would tell of the job."""
    spec = submission.spec
    return {
        "job_id": submission.job_id,
        "state": row["state"],
        "reason": "UNSPECIFIED",
        "namespace": submission.namespace,
        "queue": spec.queue,
        "type": spec.type,
        "priority": spec.priority,
        "attempt": 1,
        "revision": 2,
        "failures": 0,
        "crashes": 0,
        "spec": spec.SerializeToString(),
        "payload": submission.payload,
        "payload_type": submission.payload_type,
        "checkpoint": None,
        "checkpoint_type": None,
        "traceparent": submission.traceparent,
        "create_time": row["create_time"],
        "claim_time": row["claim_time"],
        "session_id": row["session_id"],
        "slot": False,
        "log_lines": 0,
        "log_bytes": 0,
        "suspect": 0,
        "steps": 0,
        "seconds_left": None,
    }
