"""``job.log``: lines that a handler writes for whoever looks at its job."""

from __future__ import annotations

import logging
import traceback
from typing import Protocol

DEBUG, INFO, WARNING, ERROR = logging.DEBUG, logging.INFO, logging.WARNING, logging.ERROR


class LogSink(Protocol):
    """Takes lines from any thread and never blocks."""

    def log(self, level: int, message: str) -> None:
        """One line, of a level of the module :mod:`logging`."""


class JobLog:
    """Used like a logger: ``job.log.info("%d rows", n)``, from any thread.

    The lines travel with the job, not into the runner's own log. A line is cut at 8 KiB; after
    10,000 lines or 1 MiB of one attempt the rest is left out, and a last line says so.
    """

    __slots__ = ("_sink",)

    def __init__(self, sink: LogSink) -> None:
        self._sink = sink

    def debug(self, message: object, *args: object) -> None:
        """Detail for the handler's author."""
        self._sink.log(DEBUG, _formatted(message, args))

    def info(self, message: object, *args: object) -> None:
        """What is going on."""
        self._sink.log(INFO, _formatted(message, args))

    def warning(self, message: object, *args: object) -> None:
        """Odd, and survivable."""
        self._sink.log(WARNING, _formatted(message, args))

    def error(self, message: object, *args: object) -> None:
        """Something failed."""
        self._sink.log(ERROR, _formatted(message, args))

    def exception(self, message: object, *args: object) -> None:
        """As :meth:`error`, followed by the traceback of the exception being handled."""
        text = f"{_formatted(message, args)}\n{traceback.format_exc().rstrip()}"
        self._sink.log(ERROR, text)

    def log(self, level: int, message: object, *args: object) -> None:
        """A line of a level of the module :mod:`logging`."""
        self._sink.log(level, _formatted(message, args))


def _formatted(message: object, args: tuple[object, ...]) -> str:
    text = str(message)
    if not args:
        return text
    try:
        # As the standard library does: one mapping serves %(name)s.
        return text % (args[0] if len(args) == 1 and isinstance(args[0], dict) else args)
    except (TypeError, ValueError, KeyError):
        # A slip in a log line should not fail the job that wrote it.
        return f"{text} {args!r}"
