"""Duty: have repaired what crashes of others left behind."""

from __future__ import annotations

import logging

from jobmesh.v1 import dispatch_service_pb2 as pb
from jobmesh_scheduler import telemetry
from jobmesh_scheduler.dispatch import LeaderCalls

log = logging.getLogger(__name__)

BATCH = 5000
INTERVAL = 3.0


class Reconciliation:
    """Asks every few seconds, and again at once while there is more to repair than one batch."""

    name = "reconciliation"

    def __init__(self, calls: LeaderCalls) -> None:
        self._calls = calls

    async def turn(self, epoch: int) -> float:
        """Repair one batch; seconds until the next."""
        answer = await self._calls.reconcile(epoch, BATCH)
        repairs = counts(answer)
        for kind, count in repairs.items():
            telemetry.RECONCILED.labels(kind).inc(count)
        if any(repairs.values()):
            log.info("repaired: %s", ", ".join(f"{k} {n}" for k, n in repairs.items() if n))
        return 0.0 if max(repairs.values()) >= BATCH else INTERVAL


def counts(answer: pb.ReconcileResponse) -> dict[str, int]:
    """How much was repaired, by kind."""
    return {
        "outbox": answer.outbox_published,
        "wakeup": answer.wakeups_published,
        "released": answer.released,
        "dead_lettered": answer.dead_lettered,
        "slots": answer.slots_corrected,
    }
