"""Keeps from a person what services warn of only because they start beside each other."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterable

from jobmesh.dev.render import structured

PATIENCE = 10.0  # seconds
MOST_KEPT = 200
OWN_LOGGERS = "jobmesh"


class Calm:
    """Passes log lines on, but for our own services' warnings while the mesh starts.

    Each service misses the others for a moment, and says so. Once all serve, that is forgotten (the
    log files have it). A warning that is `PATIENCE` old by then may be the reason why they do not:
    it is passed on, and all that follow. Errors, the supervisor's own words, and what an app itself
    warns of are never kept back.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._over = False
        self._kept: deque[tuple[float, str, str]] = deque(maxlen=MOST_KEPT)

    def pass_on(self, name: str, lines: Iterable[str]) -> list[tuple[str, str]]:
        """Of these lines of a process the ones to show now, each with the process's name."""
        shown = []
        for line in lines:
            if self._over or not _is_own_warning(line):
                shown.append((name, line))
            else:
                self._kept.append((self._clock() + PATIENCE, name, line))
        return shown

    def overdue(self) -> list[tuple[str, str]]:
        """All that was kept back, if some of it was for too long."""
        if not self._kept or self._kept[0][0] > self._clock():
            return []
        return self.rest()

    def rest(self) -> list[tuple[str, str]]:
        """All that was kept back; nothing is any more."""
        lines = [(name, line) for _, name, line in self._kept]
        self.forget()
        return lines

    def forget(self) -> None:
        """All is well: what was kept back is of no interest, what comes now is."""
        self._over = True
        self._kept.clear()


def _is_own_warning(line: str) -> bool:
    record = structured(line)
    return (
        record is not None
        and record.get("level") == "WARNING"
        and str(record.get("logger")).startswith(OWN_LOGGERS)
    )
