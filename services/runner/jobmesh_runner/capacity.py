"""Keeps the dispatcher told how much the runner can take."""

from __future__ import annotations

import asyncio

from jobmesh_runner.prefetch import TICK_SECONDS, Prefetch
from jobmesh_runner.session import Session


class CapacityTeller:
    """Ticks a :class:`Prefetch` while jobs flow; idle it costs nothing. Of the mesh thread."""

    def __init__(self, session: Session, prefetch: Prefetch) -> None:
        self._session = session
        self._prefetch = prefetch
        self._draining = False
        self._blocked = False
        self._timer: asyncio.TimerHandle | None = None
        self._ticked_at = 0.0

    @property
    def prefetch(self) -> int:
        """What the dispatcher was told last."""
        return self._prefetch.value

    async def start(self) -> None:
        """Wait for the first job to end."""

    async def stop(self) -> None:
        """Tell nothing more."""
        self._draining = True
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def drain(self) -> None:
        """From now on the runner takes nothing more."""
        self._draining = True
        self._tell()

    def set_blocked(self, blocked: bool) -> None:
        """Whether a handler holds the users' loop, so that nothing could be begun."""
        if blocked != self._blocked and not self._draining:
            self._blocked = blocked
            self._tell()

    def ended(self) -> None:
        """A job has ended."""
        self._prefetch.ended()
        if self._timer is None and not self._draining:
            self._schedule()

    def _schedule(self) -> None:
        loop = asyncio.get_running_loop()
        self._ticked_at = loop.time()
        self._timer = loop.call_later(TICK_SECONDS, self._tick)

    def _tick(self) -> None:
        self._timer = None
        if self._draining:
            return
        if self._prefetch.tick(asyncio.get_running_loop().time() - self._ticked_at):
            self._tell()
        if self._prefetch.is_moving:
            self._schedule()

    def _tell(self) -> None:
        refuses = self._draining or self._blocked
        self._session.tell_capacity(
            prefetch=0 if refuses else self._prefetch.value, draining=refuses
        )
