"""Recording what runners report, many reports a transaction.

Each kind of report has a batcher: whatever arrives while the last write is under way goes into the
next. An outcome is tried until it is recorded or the stream ends (the runner then reports it again,
to whomever it attaches next); a start or a progress that cannot be written is given up, since
neither decides anything.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import Counter
from collections.abc import Awaitable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from jobmesh.batching import Batcher
from jobmesh.errors import BackendUnavailable, Overloaded, PayloadTooLarge
from jobmesh.server.metrics import counter, histogram
from jobmesh.server.tasks import Periodic
from jobmesh.v1.job_pb2 import CheckpointStored, JobEvent, Payload, Progress
from jobmesh_dispatcher import failpoints
from jobmesh_dispatcher.claims import may_begin_since
from jobmesh_dispatcher.database import REFUSED
from jobmesh_dispatcher.job_logs import JobLogs
from jobmesh_dispatcher.lease import holder_columns, lease_columns
from jobmesh_dispatcher.report_limits import (
    BATCH,
    MOST_BYTES,
    NOT_STORABLE,
    make_storable,
    not_storable,
    storable_payload,
    storable_progress,
)
from jobmesh_dispatcher.sql import load
from jobmesh_dispatcher.store.finish import (
    Ended,
    Key,
    Recorded,
    may_be_alone,
    record,
    record_alone,
    settled,
)

if TYPE_CHECKING:
    from uuid import UUID

    from jobmesh.server.lifecycle import Part
    from jobmesh_dispatcher.after_commit import AfterCommit
    from jobmesh_dispatcher.attachment import Attachment
    from jobmesh_dispatcher.claiming import Seat
    from jobmesh_dispatcher.database import Connection, Database
    from jobmesh_dispatcher.lease import Lease
    from jobmesh_dispatcher.succession import Succession

log = logging.getLogger(__name__)

RETRY_SECONDS = 0.5
PROGRESS_SECONDS = 0.5
OUTCOMES = counter(
    "jobmesh_outcomes_total", "Outcomes recorded, by state and reason.", ["state", "reason"]
)
FINISH = histogram("jobmesh_finish_seconds", "How long recording a batch of outcomes took.")


class CheckpointToStore(NamedTuple):
    """A checkpoint, and the lease it is stored under."""

    lease: Lease
    checkpoint: Payload


class Reports:
    """The batchers of one dispatcher."""

    def __init__(
        self, database: Database, after_commit: AfterCommit, succession: Succession
    ) -> None:
        self._database = database
        self._after_commit = after_commit
        self._succession = succession
        self._outcomes: Batcher[Ended, bool] = Batcher(self._record, name="outcomes", **BATCH)
        # Apart, so that no other job's end waits for the count of a limited queue.
        self._counted: Batcher[Ended, bool] = Batcher(self._record, name="counted", **BATCH)
        self._starts: Batcher[Lease, None] = Batcher(self._start_jobs, name="starts", **BATCH)
        self._checkpoints: Batcher[CheckpointToStore, bool] = Batcher(
            self._store_checkpoints, name="checkpoints", **BATCH
        )
        self.logs = JobLogs(database, after_commit.events)
        self._renewals: Batcher[Attachment, bool] = Batcher(self._renew, name="renewals")
        self._progress: dict[UUID, tuple[Lease, Progress]] = {}
        self._flusher = Periodic("progress", PROGRESS_SECONDS, self._flush_progress)
        self._parts: Sequence[Part] = (
            self._outcomes,
            self._counted,
            self._starts,
            self._checkpoints,
            self.logs,
            self._renewals,
            self._flusher,
        )

    async def start(self) -> None:
        """Accept reports."""
        for part in self._parts:
            await part.start()

    async def stop(self) -> None:
        """Record what was accepted."""
        for part in self._parts:
            await part.stop()

    async def outcomes(self, batch: Sequence[Ended]) -> list[bool]:
        """Record outcomes, however long the database is down; False where the lease is lost."""
        for ended in batch:
            make_storable(ended.report)
            if ended.report.HasField("progress"):
                self._tell_progress(ended.lease, ended.report.progress)
            self._add_progress(ended)
        await self.logs.written(ended.lease for ended in batch)
        recorded: dict[tuple[UUID, int], bool] = {}
        while waiting := [ended for ended in batch if ended.lease.key not in recorded]:
            results = await asyncio.gather(*self._put(waiting), return_exceptions=True)
            for ended, result in zip(waiting, results, strict=False):
                if isinstance(result, bool):
                    recorded[ended.lease.key] = result
                elif not isinstance(result, BackendUnavailable):
                    raise result
            if len(recorded) < len(batch):
                await asyncio.sleep(RETRY_SECONDS)  # a backoff: there is nothing to wait for
        return [recorded[ended.lease.key] for ended in batch]

    def _put(self, waiting: Sequence[Ended]) -> list[asyncio.Future[bool]]:
        """Let these be recorded: the first of them, if too many wait already."""
        futures: list[asyncio.Future[bool]] = []
        try:
            for ended in waiting:  # not a comprehension: those before the refused one count
                batcher = self._counted if ended.lease.counted else self._outcomes
                futures.append(batcher.put(ended, ended.report.ByteSize()))
        except Overloaded as error:
            log.warning("%d outcome(s) wait: %s", len(waiting) - len(futures), error)
        return futures

    async def settled(self, keys: Sequence[tuple[UUID, int]]) -> set[tuple[UUID, int]]:
        """Which of these attempts are recorded already, however long the database is down."""
        while True:
            try:
                async with self._database.connection() as connection:
                    return await settled(connection, keys)
            except BackendUnavailable:
                await asyncio.sleep(RETRY_SECONDS)  # a backoff: there is nothing to wait for

    def _add_progress(self, ended: Ended) -> None:
        """What the attempt said last and is not written yet goes with its report."""
        lease, progress = self._progress.pop(ended.lease.job_id, (None, None))
        report = ended.report
        if progress is not None and lease is ended.lease and not report.HasField("progress"):
            report.progress.CopyFrom(progress)

    async def started(self, leases: Sequence[Lease]) -> None:
        """Write down that handlers began."""
        for lease in leases:
            lease.started = True
        await asyncio.gather(*map(self._starts.put, leases))

    async def checkpoint(self, lease: Lease, checkpoint: Payload) -> bool:
        """Store a checkpoint; False if the lease is lost.

        Raises `BackendUnavailable`, `PayloadTooLarge`.
        """
        if len(checkpoint.data) > MOST_BYTES:
            raise PayloadTooLarge("checkpoint", len(checkpoint.data), MOST_BYTES)
        storable_payload(checkpoint)
        item = CheckpointToStore(lease, checkpoint)
        return await self._checkpoints.submit(item, len(checkpoint.data))

    async def renew(self, attachment: Attachment) -> bool:
        """Renew a session's lease; False if it has ended or moved."""
        return await self._renewals.submit(attachment)

    def progress(self, lease: Lease, progress: Progress) -> None:
        """Tell watchers, and keep it for the next flush; the latest wins."""
        storable_progress(progress)
        self._progress[lease.job_id] = (lease, progress)
        self._tell_progress(lease, progress)

    def _tell_progress(self, lease: Lease, progress: Progress) -> None:
        progress.update_time.GetCurrentTime()
        if self._after_commit.events.wants(lease.job_id):
            lease.sequence += 1
            event = JobEvent(job_id=str(lease.job_id), sequence=_sequence(lease), progress=progress)
            event.time.CopyFrom(progress.update_time)
            self._after_commit.events.publish([event])

    async def _record(self, batch: list[Ended]) -> list[bool | BaseException]:
        try:
            done = await self._record_alone(batch) if may_be_alone(batch) else set()
            if left := [ended for ended in batch if ended.lease.key not in done]:
                done |= await self._record_and_go_on(left)
        except REFUSED as error:
            return await self._halve(batch, error)
        return [ended.lease.key in done for ended in batch]

    async def _record_alone(self, batch: list[Ended]) -> set[Key]:
        with FINISH.time():
            recorded = await self._database.run_alone(lambda c: record_alone(c, batch))
        await self._tell(recorded)
        return recorded.settled

    async def _record_and_go_on(self, batch: list[Ended]) -> set[Key]:
        """Record, and begin the jobs that took over slots."""
        began = time.monotonic()
        with self._succession.seats([ended.lease for ended in batch]) as seats:
            with FINISH.time():
                recorded = await self._record_with(batch, seats, began)
            await self._tell(recorded)
            await self._succession.begin(recorded.handed, seats, began)
        return recorded.settled

    async def _tell(self, recorded: Recorded) -> None:
        """At once after the commit: whatever fails later, this was recorded."""
        await failpoints.reach("finish.after_commit")
        self._after_commit.changed(recorded.rows, recorded.messages)
        for kind, number in Counter((r["state"], r["reason"]) for r in recorded.rows).items():
            OUTCOMES.labels(*kind).inc(number)

    async def _record_with(
        self, batch: list[Ended], seats: Sequence[Seat], began: float
    ) -> Recorded:
        """Record; without successors if it takes long, or if the database refuses them."""

        def act(connection: Connection) -> Awaitable[Recorded]:
            return record(connection, batch, seats if may_begin_since(began) else ())

        try:
            return await self._database.run(act)
        except REFUSED as error:
            if not seats:
                raise
            log.warning("slots are given back, and not handed over: %s", error)
            return await self._database.run(lambda c: record(c, batch))

    async def _halve(self, batch: list[Ended], error: BaseException) -> list[bool | BaseException]:
        """Find the report that the database refuses, and record a failure in its place."""
        if len(batch) > 1:
            middle = len(batch) // 2
            return [*await self._record(batch[:middle]), *await self._record(batch[middle:])]
        (ended,) = batch
        if ended.report.failed.error.type == NOT_STORABLE:
            return [error]
        log.error("a report of job %s was refused", ended.lease.job_id, exc_info=error)
        return await self._record([ended._replace(report=not_storable(ended.report, error))])

    async def _start_jobs(self, batch: list[Lease]) -> list[None]:
        # What was reported meanwhile brings its start along.
        leases = sorted(
            (lease for lease in batch if not lease.reported), key=lambda lease: lease.job_id
        )
        if leases:
            await self._database.fetch(load("start_jobs"), *lease_columns(leases))
        return [None] * len(batch)

    async def _store_checkpoints(self, batch: list[CheckpointToStore]) -> list[bool]:
        latest = {item.lease.job_id: item for item in batch}
        items = sorted(latest.values(), key=lambda item: item.lease.job_id)
        rows = await self._database.fetch(
            load("save_checkpoints"),
            *holder_columns([item.lease for item in items]),
            [item.checkpoint.data for item in items],
            [item.checkpoint.content_type or "application/json" for item in items],
        )
        stored = {(row["job_id"], row["attempt"]) for row in rows}
        self._tell_checkpoints([item for item in items if item.lease.key in stored])
        return [item.lease.key in stored for item in batch]

    def _tell_checkpoints(self, items: Sequence[CheckpointToStore]) -> None:
        events = []
        for lease, checkpoint in items:
            if self._after_commit.events.wants(lease.job_id):
                stored = CheckpointStored(attempt=lease.attempt, size_bytes=len(checkpoint.data))
                event = JobEvent(job_id=str(lease.job_id), checkpoint=stored)
                event.time.GetCurrentTime()
                events.append(event)
        self._after_commit.events.publish(events)

    async def _renew(self, batch: list[Attachment]) -> list[bool]:
        mine = sorted({(a.session_id, a.id) for a in batch})
        rows = await self._database.fetch(
            load("renew_sessions"), [s for s, _ in mine], [a for _, a in mine]
        )
        renewed = {row["attachment"] for row in rows}
        return [attachment.id in renewed for attachment in batch]

    async def _flush_progress(self) -> None:
        if not self._progress:
            return
        latest, self._progress = self._progress, {}
        items = sorted(latest.values(), key=lambda item: item[0].job_id)
        await self._database.fetch(
            load("save_progress"),
            *holder_columns([lease for lease, _ in items]),
            [progress.SerializeToString() for _, progress in items],
        )


def _sequence(lease: Lease) -> int:
    """Grows over all attempts of a job.

    An attempt's numbers come after those of the attempts before it.
    """
    return (lease.attempt << 32) + lease.sequence
