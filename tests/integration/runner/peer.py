"""The other end of the runner's stream: a gRPC server that a test tells what to say.

It is a peer for the protocol and no dispatcher: nothing is stored, and who holds what is for the
test to decide.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Iterable
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Self
from uuid import uuid4

import grpc
import grpc.aio
import msgspec

from jobmesh.channels import MESSAGE_OPTIONS
from jobmesh.v1.job_pb2 import Payload
from jobmesh.v1.runner_service_pb2 import (
    Assignment,
    Cancellation,
    CheckpointReport,
    Hello,
    Lease,
    Report,
    ReportStatus,
    StepReport,
    WorkRequest,
    WorkResponse,
)
from jobmesh.v1.runner_service_pb2_grpc import (
    RunnerServiceServicer,
    add_RunnerServiceServicer_to_server,
)
from tests.support.wait import until

RECORDED = ReportStatus.REPORT_STATUS_RECORDED
LEASE_LOST = ReportStatus.REPORT_STATUS_LEASE_LOST


@dataclass
class Rules:
    """What a peer does by itself."""

    lease: float = 10.0
    ping_interval: float = 0.2
    welcomes: bool = True
    drains: bool = False
    pongs: bool = True
    acknowledges: bool = True
    stores_checkpoints: bool = True
    stores_steps: bool = True


@dataclass
class Link:
    """One stream of a runner."""

    hello: Hello
    rules: Rules
    received: list[WorkRequest] = field(default_factory=list)
    said_bye: bool = False
    is_over: bool = False
    steps: dict[tuple[str, str], Payload] = field(default_factory=dict)
    opened_at: float = field(default_factory=time.monotonic)
    _outbound: asyncio.Queue[WorkResponse | BaseException | None] = field(
        default_factory=asyncio.Queue
    )

    def send(self, response: WorkResponse) -> None:
        self._outbound.put_nowait(response)

    def end(self, error: BaseException | None = None) -> None:
        """End the stream, with a status if there is an error."""
        self._outbound.put_nowait(error)

    def assign(self, *assignments: Assignment) -> None:
        response = WorkResponse()
        response.assignments.jobs.extend(assignments)
        self.send(response)

    def cancel(self, assignment: Assignment, reason: str = "", grace: float | None = None) -> None:
        cancellation = Cancellation(lease=lease_of(assignment), reason=reason)
        if grace is not None:
            cancellation.grace.FromMilliseconds(round(grace * 1000))
        response = WorkResponse()
        response.cancellations.cancellations.append(cancellation)
        self.send(response)

    def lose(self, assignment: Assignment) -> None:
        response = WorkResponse()
        response.lost.leases.append(lease_of(assignment))
        self.send(response)

    def acknowledge(self, reports: Iterable[Report], status: Any = RECORDED) -> None:
        response = WorkResponse()
        for report in reports:
            response.report_acks.acks.add(lease=lease_of(report), status=status)
        self.send(response)

    def stored(self, checkpoint: CheckpointReport, status: Any = RECORDED) -> None:
        response = WorkResponse()
        ack = response.checkpoint_ack
        ack.lease.CopyFrom(checkpoint.lease)
        ack.sequence, ack.status = checkpoint.sequence, status
        self.send(response)

    def settle(self, step: StepReport, status: Any = RECORDED) -> None:
        """Store what a step came to, or tell what is stored."""
        key = (step.lease.job_id, step.key)
        known = self.steps.get(key)
        if known is None and step.HasField("result"):
            self.steps[key] = step.result
        response = WorkResponse()
        ack = response.step_ack
        ack.lease.CopyFrom(step.lease)
        ack.sequence, ack.status = step.sequence, status
        if known is not None:
            ack.result.CopyFrom(known)
        self.send(response)

    def all(self, kind: str) -> list[Any]:
        """The messages of that kind, in order."""
        return [getattr(m, kind) for m in self.received if m.WhichOneof("message") == kind]

    @property
    def reports(self) -> list[Report]:
        return [report for message in self.all("reports") for report in message.reports]

    @property
    def started(self) -> list[str]:
        return [lease.job_id for message in self.all("started") for lease in message.leases]

    @property
    def progress(self) -> list[Any]:
        return [report for message in self.all("progress") for report in message.reports]

    @property
    def lines(self) -> list[str]:
        return [line.message for message in self.all("logs") for line in message.lines]

    @property
    def checkpoints(self) -> list[CheckpointReport]:
        return self.all("checkpoint")

    async def report_of(self, assignment: Assignment, timeout: float = 10.0) -> Report:
        """Its report, once it is here."""

        def find() -> Report | None:
            key = assignment.job_id, assignment.attempt
            return next((r for r in self.reports if (r.job_id, r.attempt) == key), None)

        report = await until(
            find, timeout, lambda: f"a report of {assignment.type}; {self.received[-3:]}"
        )
        assert report is not None
        return report

    def obey(self, request: WorkRequest) -> None:
        """Keep a message, and answer it by the rules."""
        self.received.append(request)
        kind = request.WhichOneof("message")
        if kind == "ping" and self.rules.pongs:
            self.received.pop()
            response = WorkResponse()
            response.pong.sequence = request.ping.sequence
            self.send(response)
        elif kind == "reports" and self.rules.acknowledges:
            self.acknowledge(request.reports.reports)
        elif kind == "checkpoint" and self.rules.stores_checkpoints:
            self.stored(request.checkpoint)
        elif kind == "step" and self.rules.stores_steps:
            self.settle(request.step)
        elif kind == "bye":
            self.said_bye = True

    async def outbound(self) -> AsyncIterator[WorkResponse]:
        while (item := await self._outbound.get()) is not None:
            if isinstance(item, BaseException):
                raise item
            yield item


class Peer(RunnerServiceServicer):
    """A server for runners on a port of its own."""

    def __init__(self, port: int = 0, rules: Rules | None = None) -> None:
        self.rules = rules or Rules()
        self.port = port
        self.links: list[Link] = []
        self.dispatcher_id = str(uuid4())
        self.on_link: Callable[[Link], None] = lambda link: None
        self._server: grpc.aio.Server | None = None

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def start(self) -> None:
        options = [*MESSAGE_OPTIONS, ("grpc.so_reuseport", 0)]
        server = grpc.aio.server(options=options)
        add_RunnerServiceServicer_to_server(self, server)
        self.port = server.add_insecure_port(self.address)
        await server.start()
        self._server = server

    async def stop(self) -> None:
        """As a killed process leaves its runners."""
        if self._server is not None:
            server, self._server = self._server, None
            await server.stop(0)

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.stop()

    async def link(self, number: int = 1, timeout: float = 20.0) -> Link:
        """The stream of that number, from 1, once a runner has opened it."""
        await until(lambda: len(self.links) >= number, timeout, f"a runner's stream {number}")
        return self.links[number - 1]

    async def Work(
        self, request_iterator: AsyncIterator[WorkRequest], context: Any
    ) -> AsyncIterator[WorkResponse]:
        if self.rules.drains:
            await context.abort(grpc.StatusCode.UNAVAILABLE, "draining")
        first = await anext(request_iterator)
        link = Link(first.hello, self.rules)
        self.links.append(link)
        reading = asyncio.create_task(self._read(link, request_iterator))
        try:
            if self.rules.welcomes:
                yield self._welcome(link)
                self.on_link(link)
            async for response in link.outbound():
                yield response
        except StatusEnd as end:
            await context.abort(end.code, end.details, end.metadata)
        finally:
            link.is_over = True
            reading.cancel()
            await asyncio.wait({reading})

    async def _read(self, link: Link, requests: AsyncIterator[WorkRequest]) -> None:
        async for request in requests:
            link.obey(request)
        link.end()

    def _welcome(self, link: Link) -> WorkResponse:
        response = WorkResponse()
        welcome = response.welcome
        welcome.dispatcher_id, welcome.attachment = self.dispatcher_id, str(uuid4())
        welcome.lease.FromMilliseconds(round(self.rules.lease * 1000))
        welcome.ping_interval.FromMilliseconds(round(self.rules.ping_interval * 1000))
        return response


class StatusEnd(Exception):
    """Ends a stream with a status."""

    def __init__(self, code: grpc.StatusCode, details: str = "", metadata: Any = ()) -> None:
        super().__init__(details)
        self.code = code
        self.details = details
        self.metadata = metadata


def job(
    task: str, /, *, attempt: int = 1, timeout: float | None = None, **arguments: object
) -> Assignment:
    """A claim of a new job."""
    assignment = Assignment(
        job_id=str(uuid4()),
        attempt=attempt,
        namespace="default",
        queue="default",
        type=task,
        max_attempts=5,
    )
    assignment.payload.data = msgspec.json.encode(arguments)
    assignment.payload.content_type = "application/json"
    assignment.create_time.GetCurrentTime()
    if timeout is not None:
        assignment.timeout.FromMilliseconds(round(timeout * 1000))
    return assignment


def lease_of(claim: Assignment | Report) -> Lease:
    return Lease(job_id=claim.job_id, attempt=claim.attempt)


def result_of(report: Report) -> Any:
    """What the handler returned."""
    assert report.WhichOneof("outcome") == "succeeded", report
    return msgspec.json.decode(report.succeeded.result.data)
