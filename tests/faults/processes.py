"""What processes did that they should not have: ends that nobody brought about, and errors that
nobody foresaw. Both are read from their logs, one JSON object a line.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import Any, NamedTuple

import msgspec

from jobmesh.dev.child import describe_exit
from tests.support.fleet import Member

FAILED = 1
SERIOUS = ("ERROR", "CRITICAL")
# What needs PostgreSQL to begin with says so and ends, for whoever runs it to start it again.
WITHOUT_DATABASE = "dispatcher could not start: postgresql is not available"
# Said by libraries, and past our logs, of what is dealt with all the same.
HARMLESS = (
    # asyncpg: whoever used the connection was given up while the database was frozen; it goes back
    # in a task of its own, and is closed.
    r"ERROR \w+: Task exception was never retrieved\n.*PoolConnectionHolder.*: TimeoutError$",
)
# What ended a thread or the interpreter: the line at which its trace ends.
PAST_THE_LOG = re.compile(
    r"^(?:Traceback .*\n(?:[ \t].*\n)*|(?=Fatal Python error))(.*)", re.MULTILINE
)
MOST_SHOWN = 300


class Death(NamedTuple):
    """A process that ended as nobody had it end; `said` is its last word, if it was critical."""

    process: str
    code: int
    asked: bool
    said: str = ""

    @property
    def is_foreseen(self) -> bool:
        """Whether that is how it ends where it cannot go on."""
        return self.code == FAILED and self.said == WITHOUT_DATABASE

    def __str__(self) -> str:
        why = "after SIGTERM" if self.asked else "by itself"
        return f"{self.process} ended {why} with {describe_exit(self.code)}: {self.said or '…'}"


class Trace(NamedTuple):
    """A record with a traceback; `last` is the traceback's last line."""

    level: str
    service: str
    message: str
    last: str

    @property
    def is_foreseen(self) -> bool:
        """Whether somebody reckoned with it: then it is a warning, or the end of a process."""
        is_harmless = any(re.match(pattern, self._text) for pattern in HARMLESS)
        return self.level not in SERIOUS or self.message == WITHOUT_DATABASE or is_harmless

    @property
    def _text(self) -> str:
        return f"{self.level} {self.service}: {self.message}: {self.last}"

    def __str__(self) -> str:
        return self._text[:MOST_SHOWN]


class Lives:
    """Starts processes again; knows which part of a log, to which each life adds, is the last's."""

    def __init__(self) -> None:
        self._begins: dict[str, int] = {}

    async def start(self, member: Member) -> None:
        """Begin another life; not ready yet."""
        self._begins[member.name] = member.log.stat().st_size
        await member.start()

    def death(self, member: Member, *, asked: bool) -> Death:
        """How its last life ended."""
        assert member.child is not None
        assert member.child.exit_code is not None
        said = member.log.read_bytes()[self._begins.get(member.name, 0) :].decode(errors="replace")
        return Death(member.name, member.child.exit_code, asked, last_word(said))


def last_word(log: str) -> str:
    """The last critical message."""
    told = [record["message"] for record in _records(log) if record.get("level") == "CRITICAL"]
    return told[-1] if told else ""


def logged(members: Iterable[Member]) -> Iterator[Trace]:
    """All traces in the logs of these."""
    for member in members:
        yield from traces(member.log.read_text(errors="replace"), member.service)


def traces(log: str, service: str) -> Iterator[Trace]:
    """The traces in a log, and those that went past it: of what ended a thread, or the process."""
    for record in _records(log):
        if "Traceback" in str(record.get("error", "")):
            last = record["error"].strip().splitlines()[-1]
            yield Trace(record["level"], service, record["message"], last)
    for found in PAST_THE_LOG.finditer(log):
        yield Trace("CRITICAL", service, "not in its log", found.group(1))


def _records(log: str) -> Iterator[dict[str, Any]]:
    for line in log.split("\n"):
        with suppress(msgspec.DecodeError):  # a library's, or cut off with its process
            yield msgspec.json.decode(line, type=dict[str, Any])
