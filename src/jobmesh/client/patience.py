"""How long a call is repeated while the mesh does not answer."""

from __future__ import annotations

import asyncio
import random

from jobmesh.errors import JobmeshError

FIRST_PAUSE = 0.05
LONGEST_PAUSE = 2.0


class Patience:
    """Pauses between tries, growing and jittered, until ``seconds`` have passed since the first.

    :meth:`reset` forgets failures once something has worked.
    """

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._clock = asyncio.get_running_loop().time
        self._failures = 0
        self._ends = 0.0

    def reset(self) -> None:
        """The mesh answers again."""
        self._failures = 0

    async def pause(self, error: JobmeshError) -> None:
        """Wait before the next try.

        Raises:
            JobmeshError: ``error``, if there is no time left for another try.
        """
        now = self._clock()
        if not self._failures:
            self._ends = now + self._seconds
        self._failures += 1
        pause = self._next_pause(error.retry_after)
        if now + pause >= self._ends:
            raise error
        await asyncio.sleep(pause)

    def _next_pause(self, hint: float | None) -> float:
        backoff: float = min(LONGEST_PAUSE, FIRST_PAUSE * 2.0 ** min(self._failures - 1, 16))
        # Half of it is random, so that clients cut off together do not come back together.
        jittered = backoff * (0.5 + random.random() / 2)
        return max(jittered, min(hint or 0.0, LONGEST_PAUSE))
