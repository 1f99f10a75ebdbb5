"""One time of leading: its epoch, and until when this process may believe in it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable


class Tenure:
    """The belief that this process leads under ``epoch``.

    It holds until ``term`` seconds after the *sending* of the last renewal that succeeded, by this
    process's monotonic clock: whoever observes the row saw that renewal later than it was sent, and
    waits longer than ``term``. The belief saves useless calls; what keeps a former leader from
    acting is the epoch, which dispatchers check.
    """

    def __init__(
        self,
        epoch: int,
        *,
        term: float,
        sent: float,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.epoch = epoch
        self.ended_because = ""
        self._term = term
        self._clock = clock
        self._valid_until = sent + term
        self._ended = asyncio.Event()

    @property
    def remaining(self) -> float:
        """Seconds for which it holds without another renewal; 0 or less once it has ended."""
        return 0.0 if self._ended.is_set() else self._valid_until - self._clock()

    @property
    def valid(self) -> bool:
        """Whether it holds now."""
        return self.remaining > 0

    def renewed(self, sent: float) -> None:
        """A renewal sent at that time has succeeded."""
        self._valid_until = max(self._valid_until, sent + self._term)

    def end(self, why: str) -> None:
        """It is over; the first reason counts."""
        if not self._ended.is_set():
            self.ended_because = why
            self._ended.set()

    async def ended(self, timeout: float) -> bool:
        """Wait at most that many seconds for its end; whether it has ended."""
        try:
            async with asyncio.timeout(max(0.0, timeout)):
                await self._ended.wait()
        except TimeoutError:
            return False
        return True
