"""What goes wrong while starting the mesh on one machine, said so that a person can act on it."""

from __future__ import annotations

from pathlib import Path

TAIL_BYTES = 4096


class DevError(Exception):
    """The embedded mesh cannot start or go on; the message says what to do."""


class ProgramFailed(DevError):
    """A program ended, or did not become ready; carries the end of its log."""

    def __init__(self, name: str, what: str, log: Path) -> None:
        self.name = name
        self.log = log
        super().__init__(f"{name} {what}; the end of {log}:\n{tail(log)}")


def in_words(error: Exception) -> str:
    """What it says, or, as a timeout says nothing, what it is."""
    return str(error) or type(error).__name__


def tail(log: Path, limit: int = TAIL_BYTES, since: int = 0) -> str:
    """The last `limit` bytes of a log in whole lines, or a word on why there are none.

    What was logged before the byte `since` is of earlier runs, and left out.
    """
    try:
        with log.open("rb") as file:
            size = file.seek(0, 2) - since
            file.seek(since + max(0, size - limit))
            text = file.read().decode(errors="replace")
    except OSError as error:
        return f"(no log: {error.strerror})"
    lines = text.splitlines()
    return "\n".join(lines[1:] if size > limit else lines) or "(the log is empty)"
