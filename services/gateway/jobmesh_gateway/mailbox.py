"""What waits for one watcher: bounded whatever it does, and never a change of state too few.

- Changes of state are kept, all of them; one too many closes the mailbox, and the watcher resumes.
- Of progress only the latest is kept.
- Of log lines and checkpoints the newest are kept, within a number and a size.

What is kept comes out in the order in which it came in.
"""

from __future__ import annotations

from collections import deque

from jobmesh.v1.job_pb2 import JobEvent

MAX_CHANGES = 256
MAX_LINES = 128
MAX_LINE_BYTES = 128 << 10

_Numbered = tuple[int, JobEvent]
_Line = tuple[int, JobEvent, int]  # with its bytes


class Mailbox:
    """A queue of events for one watcher."""

    __slots__ = ("_changes", "_line_bytes", "_lines", "_next", "_progress", "dropped", "overflowed")

    def __init__(self) -> None:
        self.overflowed = False
        self.dropped = 0  # log lines and checkpoints
        self._changes: deque[_Numbered] = deque()
        self._lines: deque[_Line] = deque()
        self._line_bytes = 0
        self._progress: _Numbered | None = None
        self._next = 0

    def put(self, event: JobEvent, kind: str, size: int) -> None:
        """Add an event whose `event` is of that kind; it must not be changed any more."""
        if self.overflowed:
            return
        self._next = number = self._next + 1
        if kind == "progress":
            self._progress = (number, event)
        elif kind == "state_changed":
            self._put_change((number, event))
        else:
            self._put_line((number, event, size))

    def __bool__(self) -> bool:
        """Whether there is an event."""
        return bool(self._changes or self._lines or self._progress)

    def pop(self) -> JobEvent | None:
        """The oldest event, if there is one."""
        first = min(
            self._changes[0][0] if self._changes else self._next + 1,
            self._lines[0][0] if self._lines else self._next + 1,
            self._progress[0] if self._progress else self._next + 1,
        )
        if self._changes and self._changes[0][0] == first:
            return self._changes.popleft()[1]
        if self._lines and self._lines[0][0] == first:
            return self._pop_line()
        if self._progress is not None:
            event, self._progress = self._progress[1], None
            return event
        return None

    def _put_change(self, numbered: _Numbered) -> None:
        if len(self._changes) == MAX_CHANGES:
            self._close()
        else:
            self._changes.append(numbered)

    def _put_line(self, line: _Line) -> None:
        self._lines.append(line)
        self._line_bytes += line[2]
        while self._line_bytes > MAX_LINE_BYTES or len(self._lines) > MAX_LINES:
            self._pop_line()
            self.dropped += 1

    def _pop_line(self) -> JobEvent:
        _, event, size = self._lines.popleft()
        self._line_bytes -= size
        return event

    def _close(self) -> None:
        self.overflowed = True
        self._changes.clear()
        self._lines.clear()
        self._line_bytes = 0
        self._progress = None
