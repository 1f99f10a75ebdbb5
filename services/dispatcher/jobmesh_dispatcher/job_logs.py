"""The lines of jobs' logs: numbered as they come, written many at a time, told to watchers.

A log is bounded: its last line says that it is full. A line that cannot be written is given up, as
it decides nothing; but the report that follows it waits for it: a job that has ended takes no more.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import TYPE_CHECKING, NamedTuple

from jobmesh.batching import Batcher
from jobmesh.v1.job_pb2 import JobEvent, LogLevel, LogLine
from jobmesh_dispatcher.lease import holder_columns
from jobmesh_dispatcher.report_limits import BATCH, storable_text
from jobmesh_dispatcher.sql import load

if TYPE_CHECKING:
    from uuid import UUID

    from jobmesh_dispatcher.database import Database
    from jobmesh_dispatcher.events import Events
    from jobmesh_dispatcher.lease import Lease

MAX_LOG_LINES = 10_000
MAX_LOG_BYTES = 1 << 20
MAX_LINE_CHARACTERS = 8192


class LineToStore(NamedTuple):
    """A numbered line of a job's log."""

    lease: Lease
    sequence: int
    level: int
    message: str


class JobLogs:
    """Takes lines in; a batch writes whatever came during the last one."""

    def __init__(self, database: Database, events: Events) -> None:
        self._database = database
        self._events = events
        self._lines: Batcher[LineToStore, None] = Batcher(self._append, name="logs", **BATCH)
        self._last: dict[tuple[UUID, int], asyncio.Future[None]] = {}

    async def start(self) -> None:
        """Accept lines."""
        await self._lines.start()

    async def stop(self) -> None:
        """Write what was accepted."""
        await self._lines.stop()

    def line(
        self, lease: Lease, level: LogLevel.ValueType, message: str
    ) -> asyncio.Future[None] | None:
        """Keep a line of a job's log; none if it is over the limits.

        The line is numbered at once. Raises `Overloaded`.
        """
        if _is_full(lease):
            return None
        message = storable_text(message, MAX_LINE_CHARACTERS)
        lease.log_lines += 1
        lease.log_bytes += len(message.encode(errors="replace"))
        if _is_full(lease):
            message = "(the log of this job is full; later lines are not kept)"
        known = level if level in LogLevel.values() else LogLevel.LOG_LEVEL_UNSPECIFIED
        line = LineToStore(lease, lease.log_lines, known, message)
        written = self._lines.put(line, len(message))
        self._last[lease.key] = written
        written.add_done_callback(lambda _: self._forget(lease, written))
        self._tell(line)
        return written

    async def written(self, leases: Iterable[Lease]) -> None:
        """Wait for the lines of these that were taken in before."""
        if not self._last:
            return
        under_way = [self._last[lease.key] for lease in leases if lease.key in self._last]
        if under_way:
            await asyncio.wait(under_way)

    def _forget(self, lease: Lease, written: asyncio.Future[None]) -> None:
        if self._last.get(lease.key) is written:
            del self._last[lease.key]

    def _tell(self, line: LineToStore) -> None:
        if not self._events.wants(line.lease.job_id):
            return
        event = JobEvent(job_id=str(line.lease.job_id), sequence=line.sequence)
        event.time.GetCurrentTime()
        told = LogLine(
            sequence=line.sequence,
            attempt=line.lease.attempt,
            level=line.level,  # type: ignore[arg-type]
            message=line.message,
        )
        told.time.CopyFrom(event.time)
        event.log.CopyFrom(told)
        self._events.publish([event])

    async def _append(self, batch: list[LineToStore]) -> list[None]:
        await self._database.fetch(
            load("append_logs"),
            *holder_columns([line.lease for line in batch]),
            [line.sequence for line in batch],
            [line.level for line in batch],
            [line.message for line in batch],
        )
        return [None] * len(batch)


def _is_full(lease: Lease) -> bool:
    return lease.log_lines >= MAX_LOG_LINES or lease.log_bytes >= MAX_LOG_BYTES
