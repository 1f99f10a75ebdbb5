"""Threads for plain handlers, made as they are needed and kept.

Not a ThreadPoolExecutor: its threads are joined when the interpreter ends, so that one handler that
never returns would keep the process; and it could not grow past a thread that was left behind.
"""

from __future__ import annotations

import itertools
import logging
import queue
import threading
from collections.abc import Callable

log = logging.getLogger(__name__)

Work = Callable[[], None]


class Threads:
    """Runs work in daemon threads; at most as many as work was ever in hand at once.

    Only one thread, the loop's, may submit.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._numbers = itertools.count(1)
        self._work: queue.SimpleQueue[Work | None] = queue.SimpleQueue()
        self._idle = threading.Semaphore(0)
        self._threads: list[threading.Thread] = []

    def submit(self, work: Work) -> None:
        """Run it soon; it must not raise."""
        # The count of idle threads is taken down here and up by them: never too low, so that work
        # never waits for a thread that is busy.
        if not self._idle.acquire(blocking=False):
            self._add()
        self._work.put(work)

    def stop(self) -> None:
        """Let idle threads end; busy ones end after their work, if ever."""
        for _ in self._threads:
            self._work.put(None)

    def join(self, timeout: float) -> None:
        """Wait for each thread to end, for at most so many seconds."""
        for thread in self._threads:
            thread.join(timeout)

    def _add(self) -> None:
        thread = threading.Thread(
            target=self._run, name=f"{self._name}-{next(self._numbers)}", daemon=True
        )
        self._threads.append(thread)
        thread.start()

    def _run(self) -> None:
        while (work := self._work.get()) is not None:
            try:
                work()
            except BaseException:
                log.exception("a thread's work failed")
            del work
            self._idle.release()
