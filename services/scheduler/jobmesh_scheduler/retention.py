"""Duty: have partitions made ahead, and what is past its retention dropped."""

from __future__ import annotations

import logging

from jobmesh_scheduler import telemetry
from jobmesh_scheduler.dispatch import LeaderCalls

log = logging.getLogger(__name__)

INTERVAL = 3600.0


class Retention:
    """Asks at the takeover, since tomorrow's partition must be there today, and then hourly."""

    name = "retention"

    def __init__(self, calls: LeaderCalls) -> None:
        self._calls = calls

    async def turn(self, epoch: int) -> float:
        """Do it once; seconds until the next time."""
        answer = await self._calls.retain(epoch)
        done = {
            "partitions_created": answer.partitions_created,
            "partitions_dropped": answer.partitions_dropped,
            "request_ids_dropped": answer.request_ids_dropped,
        }
        for kind, count in done.items():
            telemetry.RETAINED.labels(kind).inc(count)
        if any(done.values()):
            log.info("retention: %s", ", ".join(f"{k} {n}" for k, n in done.items() if n))
        return INTERVAL
