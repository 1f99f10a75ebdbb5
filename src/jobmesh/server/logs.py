"""Logs: one JSON object a line on stderr, written by a thread.

``JOBMESH_LOG_FORMAT`` is ``json`` (default) or ``text``, ``JOBMESH_LOG_LEVEL`` a level of the
standard library. A thread writes, because a reader of stderr that stands still (a full pipe of a
container's log driver) would otherwise stop the event loop, and with it every lease. Its queue is
bounded; what does not fit is counted, and the count logged.

Fields: ``time`` (UTC, RFC 3339), ``level``, ``service``, ``logger``, ``message``; ``trace_id`` and
``span_id`` inside a span; ``job_id`` inside :func:`job_context`; ``error`` with a traceback; and
what a call adds by ``extra={"queue": …}``. Payloads and secrets are never logged.
"""

from __future__ import annotations

import atexit
import contextlib
import contextvars
import logging
import os
import queue
import threading
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import msgspec

from jobmesh.server import tracing
from jobmesh.server.config import ConfigError

MAX_QUEUED_LINES = 10_000
MAX_TEXT = 16 << 10

_job_id: contextvars.ContextVar[str] = contextvars.ContextVar("jobmesh_log_job_id", default="")
_encoder = msgspec.json.Encoder(enc_hook=str)
_STANDARD = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}


@contextlib.contextmanager
def job_context(job_id: str) -> Iterator[None]:
    """Lines logged inside carry the job's id."""
    token = _job_id.set(job_id)
    try:
        yield
    finally:
        _job_id.reset(token)


class JsonFormatter(logging.Formatter):
    """A record as one line of JSON."""

    def __init__(self, service: str) -> None:
        super().__init__()
        self._service = service

    def format(self, record: logging.LogRecord) -> str:
        """The line, without its end."""
        fields = self.fields(record)
        try:
            return _encoder.encode(fields).decode()
        except UnicodeEncodeError:  # lone surrogates, e.g. of a file's name
            return _encoder.encode({key: _legible(value) for key, value in fields.items()}).decode()

    def fields(self, record: logging.LogRecord) -> dict[str, Any]:
        """What the line holds."""
        fields: dict[str, Any] = {
            "time": _rfc3339(record.created),
            "level": record.levelname,
            "service": self._service,
            "logger": record.name,
            "message": _cut(record.getMessage()),
        }
        fields.update(context_fields())
        fields.update(_extra(record))
        if record.exc_info:
            fields["error"] = _cut(self.formatException(record.exc_info))
        return fields


class TextFormatter(logging.Formatter):
    """A record for people."""

    def __init__(self, service: str) -> None:
        super().__init__(f"%(asctime)s %(levelname)-7s {service} %(message)s", "%H:%M:%S")

    def format(self, record: logging.LogRecord) -> str:
        """The line, with the context at its end."""
        line = super().format(record)
        fields = context_fields() | _extra(record)
        context = " ".join(f"{key}={value}" for key, value in fields.items())
        return f"{line}  [{context}]" if context else line


def context_fields() -> dict[str, str]:
    """The job and the trace that the running code belongs to."""
    fields: dict[str, str] = {}
    if job_id := _job_id.get():
        fields["job_id"] = job_id
    if ids := tracing.current_ids():
        fields["trace_id"], fields["span_id"] = ids
    return fields


def _extra(record: logging.LogRecord) -> dict[str, Any]:
    return {key: value for key, value in vars(record).items() if key not in _STANDARD}


class ThreadedHandler(logging.Handler):
    """Formats where it is called, and writes to a file descriptor from a thread."""

    def __init__(self, descriptor: int = 2, max_queued: int = MAX_QUEUED_LINES) -> None:
        super().__init__()
        self._descriptor = descriptor
        self._lines: queue.Queue[bytes | None] = queue.Queue(max_queued)
        self._dropped = 0
        self._thread = threading.Thread(target=self._write, name="logs", daemon=True)
        self._thread.start()

    def emit(self, record: logging.LogRecord) -> None:
        """Queue the line; never waits."""
        try:
            line = self.format(record).encode("utf-8", "backslashreplace") + b"\n"
            self._lines.put_nowait(line)
        except queue.Full:
            self._dropped += 1
        except Exception:
            self.handleError(record)

    def close(self) -> None:
        """Write what is queued, for at most two seconds."""
        if self._thread.is_alive():
            with contextlib.suppress(queue.Full):
                self._lines.put(None, timeout=1)
                self._thread.join(2)
        super().close()

    def _write(self) -> None:
        while (line := self._lines.get()) is not None:
            with contextlib.suppress(OSError):  # nobody reads: nothing to tell, and nobody to tell
                _write_all(self._descriptor, line)
                self._tell_dropped()

    def _tell_dropped(self) -> None:
        dropped, self._dropped = self._dropped, 0
        if dropped:
            record = logging.LogRecord(
                __name__, logging.WARNING, "", 0, "%d log lines were dropped", (dropped,), None
            )
            _write_all(self._descriptor, self.format(record).encode() + b"\n")


class NoHangUps(logging.Filter):
    """Passes what grpcio logs, but for one line, unless all is logged.

    It logs an error with a traceback whenever somebody hangs up on a stream while something is on
    the way to them, as each watcher may at any time.
    """

    def filter(self, record: logging.LogRecord) -> bool:
        """Whether to log it."""
        is_hang_up = str(record.msg).startswith("ExecuteBatchError raised in core")
        return not is_hang_up or logging.getLogger().isEnabledFor(logging.DEBUG)


def configured() -> bool:
    """Whether :func:`configure` was called."""
    return any(isinstance(handler, ThreadedHandler) for handler in logging.getLogger().handlers)


def configure(service: str, *, level: str = "", format: str = "", descriptor: int = 2) -> None:  # noqa: A002
    """Set up logging for the process; what is not given comes from the environment.

    It raises :class:`~jobmesh.server.config.ConfigError` for an unknown level or format.
    """
    level = (level or os.environ.get("JOBMESH_LOG_LEVEL") or "INFO").upper()
    style = (format or os.environ.get("JOBMESH_LOG_FORMAT") or "json").lower()
    if level not in logging.getLevelNamesMapping():
        levels = "DEBUG, INFO, WARNING, ERROR or CRITICAL"
        raise ConfigError([f"log_level from JOBMESH_LOG_LEVEL: must be {levels}, not {level!a}"])
    if style not in ("json", "text"):
        raise ConfigError(
            [f"log_format from JOBMESH_LOG_FORMAT: must be json or text, not {style!a}"]
        )
    handler = ThreadedHandler(descriptor)
    handler.setFormatter(JsonFormatter(service) if style == "json" else TextFormatter(service))
    root = logging.getLogger()
    for old in root.handlers[:]:
        root.removeHandler(old)
        old.close()
    root.addHandler(handler)
    root.setLevel(level)
    logging.getLogger("grpc._cython.cygrpc").addFilter(NoHangUps())
    logging.captureWarnings(True)
    atexit.register(handler.close)


def _write_all(descriptor: int, data: bytes) -> None:
    while data:
        data = data[os.write(descriptor, data) :]


def _rfc3339(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds")[:-6] + "Z"


def _legible(value: Any) -> str:
    return str(value).encode("utf-8", "backslashreplace").decode()


def _cut(text: str) -> str:
    return text if len(text) <= MAX_TEXT else text[:MAX_TEXT] + "…"
