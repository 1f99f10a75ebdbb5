"""Duty: have jobs cancelled that wait past their deadline, or have expired."""

from __future__ import annotations

from jobmesh_scheduler import telemetry
from jobmesh_scheduler.dispatch import LeaderCalls
from jobmesh_scheduler.tenure import Tenure

BATCH = 1000
INTERVAL = 0.5


class Expiry:
    """Asks twice a second, and again at once after a full batch.

    Nothing starts too late because of it: whoever claims a job looks for itself.
    """

    name = "expiry"

    def __init__(self, calls: LeaderCalls, tenure: Tenure) -> None:
        self._calls = calls
        self._tenure = tenure

    async def turn(self, epoch: int) -> float:
        """Have all cancelled that is overdue; seconds until we look again."""
        while self._tenure.valid:
            answer = await self._calls.expire_jobs(epoch, BATCH)
            telemetry.EXPIRED_JOBS.inc(answer.expired)
            if answer.expired < BATCH:
                break
        return INTERVAL
