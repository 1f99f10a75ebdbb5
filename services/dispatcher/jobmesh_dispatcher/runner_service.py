"""RunnerService: one bidirectional stream for each attached runner."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING
from uuid import UUID

import grpc

from jobmesh.errors import Draining, InvalidField, SessionEnded, Unavailable
from jobmesh.server.tasks import TaskOwner
from jobmesh.v1 import runner_service_pb2 as pb
from jobmesh.v1.runner_service_pb2_grpc import RunnerServiceServicer
from jobmesh_dispatcher.attachment import Attachment
from jobmesh_dispatcher.store.finish import Ended, settled

if TYPE_CHECKING:
    from jobmesh_dispatcher.database import Database
    from jobmesh_dispatcher.lease import Lease
    from jobmesh_dispatcher.reports import Reports
    from jobmesh_dispatcher.roster import Roster
    from jobmesh_dispatcher.sessions import Sessions

log = logging.getLogger(__name__)

HELLO_SECONDS = 10.0
PING_SECONDS = 1
MAX_SLOTS = 10_000
MAX_TYPES = 1000
RECORDED = pb.REPORT_STATUS_RECORDED
LOST = pb.REPORT_STATUS_LEASE_LOST


class RunnerService(RunnerServiceServicer):
    """Serves runners.

    Nothing that is written is awaited while reading: reports of one stream do not wait for each
    other.
    """

    def __init__(
        self,
        database: Database,
        roster: Roster,
        sessions: Sessions,
        reports: Reports,
        *,
        dispatcher_id: str,
        lease_seconds: float,
    ) -> None:
        self._database = database
        self._roster = roster
        self._sessions = sessions
        self._reports = reports
        self._dispatcher_id = dispatcher_id
        self._lease_seconds = lease_seconds
        self._draining = False
        self._ends = TaskOwner()

    async def drain(self) -> None:
        """Send all runners elsewhere, and take no new ones."""
        self._draining = True
        self._sessions.drain()

    async def start(self) -> None:
        """Nothing to do: the server brings the streams."""

    async def stop(self) -> None:
        """Await the ends of sessions that are under way."""
        await self._ends.stop()

    async def Work(
        self,
        request_iterator: AsyncIterator[pb.WorkRequest],
        context: grpc.aio.ServicerContext[object, object],
    ) -> AsyncIterator[pb.WorkResponse]:
        """See runner_service.proto."""
        if self._draining:
            raise Draining
        attachment = await self._sessions.attach(await _hello(request_iterator))
        log.info("runner %s attached", attachment.runner_id)
        tasks = TaskOwner(on_failure=lambda name, error: attachment.close())
        try:
            tasks.spawn("read", self._read(attachment, request_iterator, tasks))
            yield self._welcome(attachment)
            async for response in attachment.outbound():
                yield response
            self._explain_end(attachment)
        finally:
            attachment.close()
            # Not awaited here: a stream that was cancelled has no time for it.
            self._ends.spawn(f"end-{attachment.runner_id}", self._end(attachment, tasks))

    def _explain_end(self, attachment: Attachment) -> None:
        if attachment.ended:
            raise SessionEnded(str(attachment.session_id))
        if self._draining:
            raise Draining

    async def _end(self, attachment: Attachment, tasks: TaskOwner) -> None:
        await tasks.stop()
        try:
            await self._sessions.end(attachment)
        except Unavailable as error:
            # The leader ends it once it is silent for long enough.
            log.warning("session of %s not ended: %s", attachment.runner_id, error)

    def _welcome(self, attachment: Attachment) -> pb.WorkResponse:
        welcome = pb.Welcome(dispatcher_id=self._dispatcher_id, attachment=str(attachment.id))
        welcome.lease.FromMilliseconds(int(self._lease_seconds * 1000))
        welcome.ping_interval.FromSeconds(PING_SECONDS)
        return pb.WorkResponse(welcome=welcome)

    async def _read(
        self, attachment: Attachment, requests: AsyncIterator[pb.WorkRequest], tasks: TaskOwner
    ) -> None:
        async for request in requests:
            kind = request.WhichOneof("message")
            if kind == "reports":
                self._take_reports(attachment, request.reports, tasks)
            elif kind == "ping":
                tasks.spawn("ping", self._pong(attachment, request.ping))
            elif kind == "started":
                tasks.spawn("started", self._started(attachment, request.started))
            elif kind == "progress":
                self._progress(attachment, request.progress)
            elif kind == "logs":
                self._logs(attachment, request.logs, tasks)
            elif kind == "checkpoint":
                tasks.spawn("checkpoint", self._checkpoint(attachment, request.checkpoint))
            elif kind == "capacity":
                self._capacity(attachment, request.capacity)
            elif kind == "bye":
                attachment.bye = True
        attachment.close()

    async def _pong(self, attachment: Attachment, ping: pb.Ping) -> None:
        try:
            renewed = await self._reports.renew(attachment)
        except Unavailable:
            return  # no answer: the runner's lease is not renewed either
        if renewed:
            attachment.send(pb.WorkResponse(pong=pb.Pong(sequence=ping.sequence)))
        else:
            attachment.ended = True
            attachment.close()

    def _take_reports(self, attachment: Attachment, reports: pb.Reports, tasks: TaskOwner) -> None:
        """Free the runner's slots at once, then record."""
        known: list[Ended] = []
        unknown: list[pb.Report] = []
        for report in reports.reports:
            lease = attachment.lease_of(UUID(report.job_id), report.attempt)
            if lease is None:
                unknown.append(report)
            else:
                lease.reported = True
                del attachment.leases[lease.job_id]
                attachment.reporting[lease.job_id] = lease
                known.append(Ended(report, lease))
        if known:
            tasks.spawn("reports", self._record(attachment, known))
            self._roster.changed()
        if unknown:
            tasks.spawn("repeated-reports", self._look_up(attachment, unknown))

    async def _record(self, attachment: Attachment, known: list[Ended]) -> None:
        """Answer each report once it is recorded.

        If this ends early, the runner reports again where it attaches next.
        """
        results = await self._reports.outcomes(known)
        acks = []
        for ended, recorded in zip(known, results, strict=True):
            attachment.reporting.pop(ended.lease.job_id, None)
            acks.append(_ack(ended.report, recorded))
        attachment.send(pb.WorkResponse(report_acks=pb.ReportAcks(acks=acks)))

    async def _look_up(self, attachment: Attachment, reports: list[pb.Report]) -> None:
        """Reports of attempts that are not the runner's any more.

        Recorded before, or lost. While one is being recorded it is neither.
        """
        pending = [r for r in reports if UUID(r.job_id) not in attachment.reporting]
        keys = [(UUID(report.job_id), report.attempt) for report in pending]
        async with self._database.connection() as connection:
            recorded = await settled(connection, keys)
        acks = [_ack(report, key in recorded) for report, key in zip(pending, keys, strict=True)]
        attachment.send(pb.WorkResponse(report_acks=pb.ReportAcks(acks=acks)))

    async def _started(self, attachment: Attachment, started: pb.Started) -> None:
        leases = [attachment.lease_of(UUID(x.job_id), x.attempt) for x in started.leases]
        try:
            await self._reports.started([lease for lease in leases if lease is not None])
        except Unavailable as error:
            log.warning("starts not written down: %s", error)

    def _progress(self, attachment: Attachment, progress: pb.ProgressReports) -> None:
        for report in progress.reports:
            if lease := _lease(attachment, report.lease):
                self._reports.progress(lease, report.progress)

    def _logs(self, attachment: Attachment, logs: pb.LogReports, tasks: TaskOwner) -> None:
        """Begin to write the lines at once: the report that follows them waits for them."""
        under_way = []
        try:
            for line in logs.lines:
                lease = _lease(attachment, line.lease)
                written = lease and self._reports.line(lease, line.level, line.message)
                if written:
                    under_way.append(written)
        except Unavailable as error:
            log.warning("log lines not kept: %s", error)
        if under_way:
            tasks.spawn("logs", self._written(under_way))

    async def _written(self, lines: list[asyncio.Future[None]]) -> None:
        try:
            await asyncio.gather(*lines)
        except Unavailable as error:
            log.warning("log lines not kept: %s", error)

    async def _checkpoint(self, attachment: Attachment, report: pb.CheckpointReport) -> None:
        """Answered once it is durable.

        Not at all while it cannot be, so that the runner tries again.
        """
        lease = _lease(attachment, report.lease)
        try:
            stored = lease is not None and await self._reports.checkpoint(lease, report.checkpoint)
        except Unavailable as error:
            log.warning("a checkpoint is not stored yet: %s", error)
            return
        ack = pb.CheckpointAck(
            lease=report.lease, sequence=report.sequence, status=RECORDED if stored else LOST
        )
        attachment.send(pb.WorkResponse(checkpoint_ack=ack))

    def _capacity(self, attachment: Attachment, capacity: pb.Capacity) -> None:
        attachment.slots = min(capacity.slots, MAX_SLOTS)
        attachment.prefetch = min(capacity.prefetch, MAX_SLOTS)
        attachment.draining = capacity.draining
        self._roster.changed()


async def _hello(requests: AsyncIterator[pb.WorkRequest]) -> pb.Hello:
    """The first message. Raises `InvalidField`."""
    try:
        async with asyncio.timeout(HELLO_SECONDS):
            first = await anext(aiter(requests))
    except (TimeoutError, StopAsyncIteration):
        raise InvalidField("hello", "must be the first message") from None
    hello = first.hello
    if not 1 <= hello.slots <= MAX_SLOTS:
        raise InvalidField("hello.slots", f"must be 1 to {MAX_SLOTS}")
    if not 0 <= hello.prefetch <= MAX_SLOTS:
        raise InvalidField("hello.prefetch", f"must be 0 to {MAX_SLOTS}")
    if not hello.types or len(hello.types) > MAX_TYPES:
        raise InvalidField("hello.types", f"must be 1 to {MAX_TYPES} types")
    if not 1 <= len(hello.runner_id) <= 200:
        raise InvalidField("hello.runner_id", "must have 1 to 200 characters")
    try:
        UUID(hello.session_id)
    except ValueError:
        raise InvalidField("hello.session_id", "must be a UUID") from None
    return hello


def _lease(attachment: Attachment, lease: pb.Lease) -> Lease | None:
    return attachment.lease_of(UUID(lease.job_id), lease.attempt)


def _ack(report: pb.Report, recorded: bool) -> pb.ReportAck:
    lease = pb.Lease(job_id=report.job_id, attempt=report.attempt)
    return pb.ReportAck(lease=lease, status=RECORDED if recorded else LOST)
