"""When the progress of an attempt is sent: the latest wins, about ten times a second."""

from __future__ import annotations

import heapq
import itertools

from jobmesh_runner.attempt import Attempt

INTERVAL_SECONDS = 0.1


class ProgressPace:
    """Attempts whose latest progress waits to be sent, by when it may be.

    The first progress goes at once; the next waits until a tenth of a second has passed since.
    """

    def __init__(self) -> None:
        self._heap: list[tuple[float, int, Attempt]] = []
        self._tie = itertools.count()

    def add(self, attempt: Attempt, now: float) -> None:
        """The attempt has something to say; not to be called again before it was taken."""
        due = max(now, attempt.progress_due)
        heapq.heappush(self._heap, (due, next(self._tie), attempt))

    def take(self, now: float) -> list[Attempt]:
        """Those that are due; each may be added again."""
        taken = []
        while self._heap and self._heap[0][0] <= now:
            attempt = heapq.heappop(self._heap)[2]
            attempt.progress_due = now + INTERVAL_SECONDS
            taken.append(attempt)
        return taken

    def next_due(self) -> float | None:
        """When :meth:`take` has something next."""
        return self._heap[0][0] if self._heap else None
