"""A line of a process's log as a person wants to see it."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence

RESET = "\x1b[0m"
DIM = "\x1b[2m"
PALETTE = ("36", "32", "35", "34", "96", "92", "95", "94")
LEVELS = {"DEBUG": "2", "WARNING": "33", "ERROR": "31", "CRITICAL": "1;31"}
# Shown in a place of their own, or the same on every line.
PLACED = frozenset({"time", "level", "service", "logger", "message", "error"})
# The servers we embed are noisy when all is well.
QUIET = {
    "postgres": re.compile(
        r"(WARNING|ERROR|FATAL|PANIC):(?!  the database system is (starting|not yet|shutting))"
    ),
    "nats": re.compile(r"\[(WRN|ERR|FTL)\]"),
}
# What a terminal would obey; a tab is harmless.
CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")


class Renderer:
    """Turns (process, line) into a line with its process in front, or None to leave it out."""

    def __init__(self, names: Sequence[str], colour: bool) -> None:
        self._width = max(map(len, names), default=0)
        self._colour = colour
        self._colours = {name: PALETTE[i % len(PALETTE)] for i, name in enumerate(names)}

    def __call__(self, name: str, line: str) -> str | None:
        """The text to print, without its end."""
        quiet = QUIET.get(name)
        if quiet is not None and not quiet.search(line):
            return None
        prefix = self._paint(f"{name:<{self._width}} |", self._colours.get(name, "0"))
        return f"{prefix} {self._body(line)}"

    def _body(self, line: str) -> str:
        record = structured(line)
        if record is None:
            return CONTROL.sub("?", line)
        level = str(record.get("level", "INFO")).upper()
        clock = str(record.get("time", ""))[11:19]
        text = CONTROL.sub("?", str(record["message"]))
        rest = "".join(
            f" {key}={CONTROL.sub('?', str(value))}"
            for key, value in record.items()
            if key not in PLACED
        )
        shown = f"{clock} {level:<7} {text}".lstrip()
        painted = self._paint(shown, LEVELS[level]) if level in LEVELS else shown
        return painted + self._paint(rest, "2") + _indented(record.get("error"))

    def _paint(self, text: str, code: str) -> str:
        return f"\x1b[{code}m{text}{RESET}" if self._colour and text else text


def structured(line: str) -> dict[str, object] | None:
    """A structured line's fields, if it is one."""
    if not line.startswith("{"):
        return None
    try:
        record = json.loads(line)
    except ValueError:
        return None
    return record if isinstance(record, dict) and "message" in record else None


def _indented(error: object) -> str:
    if not error:
        return ""
    return "".join(f"\n    {CONTROL.sub('?', line)}" for line in str(error).splitlines())
