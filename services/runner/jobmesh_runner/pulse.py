"""Looks whether handlers that must report do. Of the mesh thread."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

from jobmesh_runner.attempt import Attempt


class Pulse:
    """One timer for each handler with a ``heartbeat_timeout``, wound up anew as long as it reports.

    :param is_excused: whether it waits for the dispatcher, so that its silence is not its own.
    :param on_silence: told of an attempt that said nothing for so many seconds.
    """

    def __init__(
        self,
        is_excused: Callable[[Attempt], bool],
        on_silence: Callable[[Attempt, float], None],
    ) -> None:
        self._is_excused = is_excused
        self._on_silence = on_silence
        self._timers: dict[Attempt, asyncio.TimerHandle] = {}

    def watch(self, attempt: Attempt) -> None:
        """Its handler begins."""
        timeout = attempt.heartbeat_timeout
        if timeout is not None:
            attempt.said_at = time.monotonic()
            self._wind_up(attempt, timeout, timeout)

    def forget(self, attempt: Attempt) -> None:
        """It has ended, or was told to stop."""
        timer = self._timers.pop(attempt, None)
        if timer is not None:
            timer.cancel()

    def _wind_up(self, attempt: Attempt, seconds: float, timeout: float) -> None:
        loop = asyncio.get_running_loop()
        self._timers[attempt] = loop.call_later(seconds, self._look, attempt, timeout)

    def _look(self, attempt: Attempt, timeout: float) -> None:
        if self._is_excused(attempt):
            attempt.said_at = time.monotonic()
        left = attempt.said_at + timeout - time.monotonic()
        if left > 0:
            self._wind_up(attempt, left, timeout)
        else:
            del self._timers[attempt]
            self._on_silence(attempt, timeout)
