"""Duty: end the sessions of runners that fell silent."""

from __future__ import annotations

import logging
import time

from jobmesh.v1 import dispatch_service_pb2 as pb
from jobmesh_scheduler import telemetry
from jobmesh_scheduler.dispatch import LeaderCalls
from jobmesh_scheduler.observation import Observation

log = logging.getLogger(__name__)

READS_IN_A_LEASE = 10

SessionKey = tuple[str, str]


class Sessions:
    """Reads the counters of all sessions, and expires those that stood still for the lease.

    Made anew for every tenure, so that a takeover begins the observation anew; a read that fails
    does too, since an outage keeps dispatchers from renewing what is alive. ``lease`` in seconds.
    """

    name = "sessions"

    def __init__(self, calls: LeaderCalls, lease: float) -> None:
        self._calls = calls
        self._interval = lease / READS_IN_A_LEASE
        self._observation: Observation[SessionKey, int] = Observation(lease)

    async def turn(self, epoch: int) -> float:
        """Read once, expire what is silent; seconds until the next read."""
        for session in await self._silent(epoch):
            answer = await self._calls.expire(epoch, session)
            if answer.expired:
                telemetry.EXPIRED.inc()
                telemetry.REQUEUED.inc(answer.requeued)
                log.warning(
                    "session %s of runner %s fell silent: %d job(s) requeued",
                    session.session_id,
                    session.runner_id,
                    answer.requeued,
                )
        return self._interval

    async def _silent(self, epoch: int) -> list[pb.SessionInfo]:
        sent = time.monotonic()
        try:
            answer = await self._calls.sessions(epoch)
        except BaseException:
            self._observation.begin_anew()
            raise
        received = time.monotonic()
        telemetry.SESSIONS.set(len(answer.sessions))
        sessions = {(info.session_id, info.attachment): info for info in answer.sessions}
        marks = {key: info.counter for key, info in sessions.items()}
        silent = self._observation.take_in(marks, sent=sent, received=received)
        return [sessions[key] for key in silent]
