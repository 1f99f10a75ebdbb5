"""The thread in which the runner talks to the mesh, apart from the users' loop."""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Awaitable, Callable

import uvloop

log = logging.getLogger(__name__)

LAST_SECONDS = 2.0
"""For the main thread to end after this one; a handler may be blocking it."""


class MeshThread:
    """Runs ``main`` on a loop of its own and tells ``ended`` its exit code.

    The process ends soon after, whatever the main thread is doing.
    """

    def __init__(self, main: Callable[[], Awaitable[int]], ended: Callable[[int], object]) -> None:
        self._main = main
        self._ended = ended
        self._left = threading.Event()
        self._thread = threading.Thread(target=self._run, name="mesh", daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def join(self) -> None:
        """The main thread is done, too: wait for this one."""
        self._left.set()
        self._thread.join()

    def _run(self) -> None:
        code = 1
        try:
            code = uvloop.run(_awaited(self._main()))
        except BaseException:
            log.critical("the mesh thread failed", exc_info=True)
        self._ended(code)
        if not self._left.wait(LAST_SECONDS):
            log.critical("a handler blocks the main thread: leaving it behind")
            logging.shutdown()
            os._exit(code)


async def _awaited(awaitable: Awaitable[int]) -> int:
    return await awaitable
