"""RunnerService: one bidirectional stream for each attached runner."""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from typing import TYPE_CHECKING
from uuid import UUID

import grpc

from jobmesh.errors import (
    Draining,
    InvalidField,
    JobmeshError,
    PayloadTooLarge,
    Unavailable,
)
from jobmesh.server.tasks import TaskOwner
from jobmesh.v1 import runner_service_pb2 as pb
from jobmesh.v1.job_pb2 import Reconnect
from jobmesh.v1.runner_service_pb2_grpc import RunnerServiceServicer
from jobmesh_dispatcher.attachment import Attachment
from jobmesh_dispatcher.flow import Flow
from jobmesh_dispatcher.hello import MAX_SLOTS, read_hello
from jobmesh_dispatcher.store.finish import Ended

if TYPE_CHECKING:
    from jobmesh_dispatcher.lease import Lease
    from jobmesh_dispatcher.reports import Reports
    from jobmesh_dispatcher.roster import Roster
    from jobmesh_dispatcher.sessions import Sessions
    from jobmesh_dispatcher.steps import Steps

log = logging.getLogger(__name__)

PING_SECONDS = 1
END_SECONDS = 5.0
RECORDED = pb.REPORT_STATUS_RECORDED
LOST = pb.REPORT_STATUS_LEASE_LOST
REFUSED = pb.REPORT_STATUS_REFUSED


class RunnerService(RunnerServiceServicer):
    """Serves runners.

    Nothing that is written is awaited while reading: reports of one stream do not wait for each
    other.
    """

    def __init__(
        self,
        roster: Roster,
        sessions: Sessions,
        reports: Reports,
        steps: Steps,
        *,
        dispatcher_id: str,
        lease_seconds: float,
        stream_seconds: float,
    ) -> None:
        self._roster = roster
        self._sessions = sessions
        self._reports = reports
        self._steps = steps
        self._dispatcher_id = dispatcher_id
        self._lease_seconds = lease_seconds
        self._stream_seconds = stream_seconds
        self._draining = False
        self._ends = TaskOwner()
        self._ending: set[asyncio.Task[None]] = set()
        # What is answered, or done with, once something was written.
        self._answers: dict[str, Callable[..., Coroutine[None, None, None]]] = {
            "ping": self._pong,
            "started": self._started,
            "checkpoint": self._checkpoint,
            "step": self._step,
        }

    async def drain(self) -> None:
        """Send all runners elsewhere, and take no new ones."""
        self._draining = True
        self._sessions.drain()

    async def start(self) -> None:
        """Nothing to do: the server brings the streams."""

    async def stop(self) -> None:
        """Let the ends of sessions that are under way come about, or else leave them to the leader.

        A runner that has taken its leave is not to be charged with a crash.
        """
        if self._ending:
            await asyncio.wait(self._ending, timeout=END_SECONDS)
        await self._ends.stop()

    async def Work(
        self,
        request_iterator: AsyncIterator[pb.WorkRequest],
        context: grpc.aio.ServicerContext[object, object],
    ) -> AsyncIterator[pb.WorkResponse]:
        """See runner_service.proto."""
        if self._draining:
            raise Draining
        attachment = await self._sessions.attach(await read_hello(request_iterator))
        log.info("runner %s attached", attachment.runner_id)
        tasks = TaskOwner(on_failure=lambda name, error: attachment.fail(_told(error)))
        try:
            tasks.spawn("read", self._read(attachment, request_iterator, tasks))
            tasks.spawn("age", self._send_on(attachment))
            yield self._welcome(attachment)
            async for response in attachment.outbound():
                yield response
            self._explain_end(attachment)
        finally:
            attachment.close()
            # Not awaited here: a stream that was cancelled has no time for it.
            end = self._ends.spawn(f"end-{attachment.runner_id}", self._end(attachment, tasks))
            self._ending.add(end)
            end.add_done_callback(self._ending.discard)

    async def _send_on(self, attachment: Attachment) -> None:
        """Send the runner to the next dispatcher in the end, with what it runs.

        Else all would stay with those that were there while another was not. Half of the time has
        no memory (it is exponential): runners that came together do not move on together.
        """
        half = self._stream_seconds / 2
        await asyncio.sleep(half + random.expovariate(1 / half))
        attachment.send(pb.WorkResponse(reconnect=Reconnect()))

    def _explain_end(self, attachment: Attachment) -> None:
        if attachment.error is not None:
            raise attachment.error
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
        flow = Flow()
        try:
            async for request in requests:
                await flow.room()
                if attachment.error is not None:
                    return  # nor are its pings answered: whatever it has goes to others in the end
                for task in self._handle(attachment, request, tasks):
                    flow.until(task, request.ByteSize())
        except grpc.aio.UsageError:
            pass  # the stream was over before this asked for more
        attachment.close()

    def _handle(
        self, attachment: Attachment, request: pb.WorkRequest, tasks: TaskOwner
    ) -> Sequence[asyncio.Task[None]]:
        """Act on one message; the tasks that are under way because of it."""
        kind = request.WhichOneof("message")
        if kind == "reports":
            return self._take_reports(attachment, request.reports, tasks)
        if kind == "logs":
            return self._logs(attachment, request.logs, tasks)
        if kind == "progress":
            self._progress(attachment, request.progress)
        elif kind == "capacity":
            self._capacity(attachment, request.capacity)
        elif kind == "bye":
            attachment.bye = True
        elif kind is not None and (answer := self._answers.get(kind)):
            return (tasks.spawn(kind, answer(attachment, getattr(request, kind))),)
        return ()

    async def _pong(self, attachment: Attachment, ping: pb.Ping) -> None:
        try:
            renewed = await self._reports.renew(attachment)
        except Unavailable:
            return  # no answer: the runner's lease is not renewed either
        if renewed:
            attachment.send(pb.WorkResponse(pong=pb.Pong(sequence=ping.sequence)))
        else:
            # Not SESSION_ENDED: it may only have moved, and what the runner does goes on there. If
            # it did end, the runner learns it where it attaches next.
            attachment.fail(Unavailable("the session has ended, or is attached elsewhere"))

    def _take_reports(
        self, attachment: Attachment, reports: pb.Reports, tasks: TaskOwner
    ) -> list[asyncio.Task[None]]:
        """Free the runner's slots at once, then record; the tasks that do."""
        known: list[Ended] = []
        unknown: list[pb.Report] = []
        for report in reports.reports:
            lease = attachment.lease_of(_uuid(report.job_id), report.attempt)
            if lease is None:
                unknown.append(report)
            else:
                lease.reported = True
                del attachment.leases[lease.job_id]
                attachment.reporting[lease.job_id] = lease
                known.append(Ended(report, lease))
        under_way = []
        if known:
            under_way.append(tasks.spawn("reports", self._record(attachment, known)))
            self._roster.changed()
        if unknown:
            task = tasks.spawn("repeated-reports", self._look_up(attachment, unknown))
            under_way.append(task)
        return under_way

    async def _record(self, attachment: Attachment, known: list[Ended]) -> None:
        """Answer each report once it is recorded.

        If this ends early, the runner reports again where it attaches next.
        """
        results = await self._reports.outcomes(known)
        acks = []
        for ended, recorded in zip(known, results, strict=True):
            job_id = ended.lease.job_id
            if attachment.reporting.get(job_id) is ended.lease:  # and not its next attempt
                del attachment.reporting[job_id]
            acks.append(_ack(ended.report, recorded))
        attachment.send(pb.WorkResponse(report_acks=pb.ReportAcks(acks=acks)))

    async def _look_up(self, attachment: Attachment, reports: list[pb.Report]) -> None:
        """Reports of attempts that are not the runner's any more.

        Recorded before, or lost. While one is being recorded it is neither.
        """
        being_recorded = {lease.key for lease in attachment.reporting.values()}
        pending = [r for r in reports if (_uuid(r.job_id), r.attempt) not in being_recorded]
        keys = [(_uuid(report.job_id), report.attempt) for report in pending]
        recorded = await self._reports.settled(keys)
        acks = [_ack(report, key in recorded) for report, key in zip(pending, keys, strict=True)]
        attachment.send(pb.WorkResponse(report_acks=pb.ReportAcks(acks=acks)))

    async def _started(self, attachment: Attachment, started: pb.Started) -> None:
        leases = [attachment.lease_of(_uuid(x.job_id), x.attempt) for x in started.leases]
        try:
            await self._reports.started([lease for lease in leases if lease is not None])
        except Unavailable as error:
            log.warning("starts not written down: %s", error)

    def _progress(self, attachment: Attachment, progress: pb.ProgressReports) -> None:
        for report in progress.reports:
            if lease := _lease(attachment, report.lease):
                self._reports.progress(lease, report.progress)

    def _logs(
        self, attachment: Attachment, logs: pb.LogReports, tasks: TaskOwner
    ) -> list[asyncio.Task[None]]:
        """Begin to write the lines at once: the report that follows them waits for them."""
        under_way = []
        try:
            for line in logs.lines:
                lease = _lease(attachment, line.lease)
                written = lease and self._reports.logs.line(lease, line.level, line.message)
                if written:
                    under_way.append(written)
        except Unavailable as error:
            log.warning("log lines not kept: %s", error)
        return [tasks.spawn("logs", self._await_lines(under_way))] if under_way else []

    async def _await_lines(self, lines: list[asyncio.Future[None]]) -> None:
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
            if lease and await self._reports.checkpoint(lease, report.checkpoint):
                status = RECORDED
            else:
                status = LOST
        except PayloadTooLarge:
            status = REFUSED
        except Unavailable as error:
            log.warning("a checkpoint is not stored yet: %s", error)
            return
        ack = pb.CheckpointAck(lease=report.lease, sequence=report.sequence, status=status)
        attachment.send(pb.WorkResponse(checkpoint_ack=ack))

    async def _step(self, attachment: Attachment, report: pb.StepReport) -> None:
        ack = await self._steps.answer(_lease(attachment, report.lease), report)
        if ack is not None:
            attachment.send(pb.WorkResponse(step_ack=ack))

    def _capacity(self, attachment: Attachment, capacity: pb.Capacity) -> None:
        attachment.slots = min(capacity.slots, MAX_SLOTS)
        attachment.prefetch = min(capacity.prefetch, MAX_SLOTS)
        attachment.draining = capacity.draining
        self._roster.changed()


def _told(error: BaseException) -> JobmeshError:
    """What a runner is told of what went wrong with its stream: of ours no details."""
    if isinstance(error, JobmeshError):
        return error
    return Unavailable("the stream broke inside the dispatcher")


def _uuid(job_id: str) -> UUID:
    try:
        return UUID(job_id)
    except ValueError:
        raise InvalidField("job_id", "must be a UUID") from None


def _lease(attachment: Attachment, lease: pb.Lease) -> Lease | None:
    return attachment.lease_of(_uuid(lease.job_id), lease.attempt)


def _ack(report: pb.Report, recorded: bool) -> pb.ReportAck:
    lease = pb.Lease(job_id=report.job_id, attempt=report.attempt)
    return pb.ReportAck(lease=lease, status=RECORDED if recorded else LOST)
