"""Duty: fire what waited for the jobs of earlier firings to end."""

from __future__ import annotations

from jobmesh_scheduler.dispatch import LeaderCalls

BATCH = 200
PAUSE = 0.5


class Buffering:
    """Asks twice a second, and again at once as long as a batch was full."""

    name = "buffering"

    def __init__(self, calls: LeaderCalls) -> None:
        self._calls = calls

    async def turn(self, epoch: int) -> float:
        """Do it once; seconds until the next time."""
        submitted = await self._calls.fire_buffered(epoch, BATCH)
        return 0.0 if submitted == BATCH else PAUSE
