"""The log of the supervisor's own process, a file beside those of the others."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

log = logging.getLogger("jobmesh.dev")


@contextmanager
def logging_to(path: Path) -> Iterator[None]:
    """Write all that this process logs to a file, and nowhere else.

    Python's own place for it, and so for what asyncio warns of, is standard error, where a thread
    that has to go on would wait for whoever reads that.
    """
    handler = _QuietFile(path, encoding="utf-8", errors="backslashreplace")
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(message)s", "%H:%M:%S"))
    root = logging.getLogger()
    root.addHandler(handler)
    log.setLevel(logging.INFO)
    try:
        yield
    finally:
        root.removeHandler(handler)
        with suppress(OSError):  # the disk is full, and the last line is lost
            handler.close()


class _QuietFile(logging.FileHandler):
    def handleError(self, record: logging.LogRecord) -> None:
        """Lose the line: logging would print a traceback, and wait for whoever reads that."""
