"""Calls from any thread onto one loop, in order, waking it once a burst and not once a call."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from typing import Any

log = logging.getLogger(__name__)

AT_ONCE = 1000
"""Calls made in one turn of the loop; the rest gets the next one."""


class Handoff:
    """A queue of calls that one loop makes.

    It needs no lock: a deque's operations are atomic, and the flag is lowered *before* the queue is
    emptied. Whoever finds the flag up has thus put its call where it will be found; two who both
    find it down wake the loop twice, which costs a turn and no more.

    What goes in is bounded by those who call: a claim at a time, a progress at a time of each
    attempt, log lines within a budget.

    :ivar settled: called on the loop after each burst.
    """

    def __init__(self) -> None:
        self._calls: deque[tuple[Callable[..., object], tuple[Any, ...]]] = deque()
        self._armed = True  # until there is a loop to wake
        self._loop: asyncio.AbstractEventLoop | None = None
        self.settled: Callable[[], None] | None = None

    def bind(self, loop: asyncio.AbstractEventLoop) -> None:
        """Make the calls on this loop, those that came before included."""
        self._loop = loop
        self._wake()

    def call(self, function: Callable[..., object], *args: object) -> None:
        """Have ``function(*args)`` called there soon; from any thread."""
        self._calls.append((function, args))
        if not self._armed:
            self._armed = True
            self._wake()

    def _wake(self) -> None:
        if self._loop is None:
            return
        try:
            self._loop.call_soon_threadsafe(self._drain)
        except RuntimeError:
            # The loop is closed: the process ends, and nobody is left to hear it.
            log.debug("a call came too late")

    def _drain(self) -> None:
        self._armed = False
        calls = self._calls
        for _ in range(min(len(calls), AT_ONCE)):
            function, args = calls.popleft()
            try:
                function(*args)
            except Exception:
                log.exception("a call from another thread failed")
        if calls and not self._armed:
            self._armed = True
            self._wake()
        if self.settled is not None:
            self.settled()
