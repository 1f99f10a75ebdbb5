"""Keeps the dispatcher told how many jobs to send ahead."""

from __future__ import annotations

import asyncio

from jobmesh_runner.prefetch import TICK_SECONDS, Prefetch
from jobmesh_runner.session import Session


class Pace:
    """Ticks a :class:`Prefetch` while jobs flow; idle it costs nothing. Of the mesh thread."""

    def __init__(self, session: Session, prefetch: Prefetch) -> None:
        self._session = session
        self._prefetch = prefetch
        self._timer: asyncio.TimerHandle | None = None
        self._ticked_at = 0.0
        self._stopped = False

    @property
    def prefetch(self) -> int:
        """What the dispatcher was told last."""
        return self._prefetch.value

    async def start(self) -> None:
        """Wait for the first job to end."""

    async def stop(self) -> None:
        """Tick no more."""
        self._stopped = True
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def ended(self) -> None:
        """A job has ended."""
        self._prefetch.ended()
        if self._timer is None and not self._stopped:
            self._schedule()

    def _schedule(self) -> None:
        loop = asyncio.get_running_loop()
        self._ticked_at = loop.time()
        self._timer = loop.call_later(TICK_SECONDS, self._tick)

    def _tick(self) -> None:
        self._timer = None
        if self._prefetch.tick(asyncio.get_running_loop().time() - self._ticked_at):
            self._session.tell_capacity(prefetch=self._prefetch.value, draining=False)
        if self._prefetch.is_moving:
            self._schedule()
