"""Duty: queue scheduled and retrying jobs when their time has come."""

from __future__ import annotations

from jobmesh_scheduler import telemetry
from jobmesh_scheduler.dispatch import LeaderCalls
from jobmesh_scheduler.tenure import Tenure

BATCH = 1000
# A job submitted with a run_at in the near future is not known here until we look again.
LONGEST_PAUSE = 0.2
SHORTEST_PAUSE = 0.01


class Promotion:
    """Asks for what is due, a batch at a time, until a batch was not full."""

    name = "promotion"

    def __init__(self, calls: LeaderCalls, tenure: Tenure) -> None:
        self._calls = calls
        self._tenure = tenure

    async def turn(self, epoch: int) -> float:
        """Promote all that is due; seconds until the next one is, or until we look again."""
        while self._tenure.valid:
            answer = await self._calls.promote(epoch, BATCH)
            telemetry.PROMOTED.inc(answer.promoted)
            if answer.promoted < BATCH:
                due_in = answer.next_due_in.ToMilliseconds() / 1000
                return pause(due_in if answer.HasField("next_due_in") else None)
        return SHORTEST_PAUSE


def pause(due_in: float | None) -> float:
    """Seconds to wait if the next job known is due in that many, or none is known."""
    if due_in is None:
        return LONGEST_PAUSE
    return min(max(due_in, SHORTEST_PAUSE), LONGEST_PAUSE)
