"""How much one attempt may log."""

from __future__ import annotations

MOST_LINES = 10_000
MOST_BYTES = 1 << 20
LINE_BYTES = 8 << 10
MARKER = "the log is full: further lines of this attempt are left out"


class LogBudget:
    """10,000 lines and 1 MiB; then one marker, then nothing."""

    __slots__ = ("_bytes", "_full", "_lines")

    def __init__(self) -> None:
        self._lines = MOST_LINES
        self._bytes = MOST_BYTES
        self._full = False

    def admit(self, line: str) -> str | None:
        """The line, or the marker in place of the first that does not fit, or None after it."""
        if self._full:
            return None
        self._lines -= 1
        self._bytes -= len(line.encode("utf-8", "replace"))
        # The marker is a line as well.
        if self._lines < 1 or self._bytes < 0:
            self._full = True
            return MARKER
        return line
