"""Streams of runners that say what cannot be, or speak while the database is away."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from urllib.parse import urlsplit, urlunsplit
from uuid import UUID

import grpc
import grpc.aio
import pytest

from jobmesh.dev.ports import PortPool
from jobmesh.errors import from_rpc_error
from jobmesh.server.grpc_server import GrpcServer
from jobmesh.v1 import runner_service_pb2 as pb
from jobmesh.v1.runner_service_pb2_grpc import (
    RunnerServiceStub,
    add_RunnerServiceServicer_to_server,
)
from jobmesh_dispatcher.database import Database
from jobmesh_dispatcher.runner_service import RunnerService
from jobmesh_dispatcher.steps import Steps
from tests.support import decisions as d
from tests.support.dispatchers import Dispatcher, dispatcher, hello
from tests.support.proxy import TcpProxy
from tests.support.wait import until

NAME = "jobmesh.v1.RunnerService"
SECONDS = 10


@asynccontextmanager
async def served(
    database: Database, port: int, stream_seconds: float = 300
) -> AsyncIterator[tuple[Dispatcher, grpc.aio.Channel]]:
    """A dispatcher that serves runners, and a channel to it."""
    steps = Steps(database)
    async with dispatcher(database) as one:
        service = RunnerService(
            one.roster,
            one.sessions,
            one.reports,
            steps,
            dispatcher_id=str(d.uid()),
            lease_seconds=10,
            stream_seconds=stream_seconds,
        )
        entry = (add_RunnerServiceServicer_to_server, service, NAME)
        server = GrpcServer(
            "127.0.0.1", port, [entry], on_drain=service.drain, drain_seconds=0, grace_seconds=1
        )
        await steps.start()
        await server.start()
        try:
            async with grpc.aio.insecure_channel(server.address) as channel:
                yield one, channel
        finally:
            await server.stop()
            await service.stop()
            await steps.stop()


class Runner:
    """A runner that says whatever a test wants."""

    def __init__(self, channel: grpc.aio.Channel) -> None:
        self.call = RunnerServiceStub(channel).Work()  # type: ignore[call-arg]

    async def attach(self) -> None:
        await self.say(hello=hello())
        assert (await self.hear()).HasField("welcome")

    async def say(self, **message: object) -> None:
        await asyncio.wait_for(self.call.write(pb.WorkRequest(**message)), SECONDS)  # type: ignore[arg-type]

    async def hear(self) -> pb.WorkResponse:
        response = await asyncio.wait_for(self.call.read(), SECONDS)
        assert isinstance(response, pb.WorkResponse), "the stream has ended"
        return response


NO_UUID = pb.Lease(job_id="no-uuid", attempt=1)


@pytest.mark.parametrize(
    "message",
    [
        {"reports": pb.Reports(reports=[pb.Report(job_id="no-uuid", attempt=1)])},
        {"started": pb.Started(leases=[NO_UUID])},
        {"progress": pb.ProgressReports(reports=[pb.ProgressReport(lease=NO_UUID)])},
        {"logs": pb.LogReports(lines=[pb.LogReport(lease=NO_UUID)])},
        {"checkpoint": pb.CheckpointReport(lease=NO_UUID)},
    ],
    ids=lambda message: next(iter(message)),
)
async def test_what_cannot_be_ends_its_stream_and_says_why(
    database: str, ports: PortPool, message: dict[str, object]
) -> None:
    async with d.opened(database) as db, served(db, ports.take()) as (_, channel):
        bad, good = Runner(channel), Runner(channel)
        await bad.attach()
        await good.attach()
        await bad.say(**message)
        with pytest.raises(grpc.aio.AioRpcError) as ended:
            await bad.hear()
        assert ended.value.code() is grpc.StatusCode.INVALID_ARGUMENT
        assert from_rpc_error(ended.value).metadata["field"] == "job_id"
        await good.say(ping=pb.Ping(sequence=7))
        assert (await good.hear()).pong.sequence == 7
        good.call.cancel()


async def test_a_session_that_has_moved_is_not_said_to_have_ended(
    database: str, ports: PortPool
) -> None:
    """Its handlers go on elsewhere."""
    async with d.opened(database) as db, served(db, ports.take()) as (_, channel):
        runner = Runner(channel)
        await runner.attach()
        await db.fetch("UPDATE jobmesh.sessions SET attachment = gen_random_uuid()")
        await runner.say(ping=pb.Ping(sequence=1))
        with pytest.raises(grpc.aio.AioRpcError) as ended:
            await runner.hear()
        assert ended.value.code() is grpc.StatusCode.UNAVAILABLE


async def test_a_runner_is_sent_on_in_the_end_and_served_until_it_goes(
    database: str, ports: PortPool
) -> None:
    async with d.opened(database) as db, served(db, ports.take(), 0.1) as (one, channel):
        runner = Runner(channel)
        await runner.attach()
        assert (await runner.hear()).HasField("reconnect")
        await runner.say(ping=pb.Ping(sequence=1))
        assert (await runner.hear()).pong.sequence == 1
        assert one.roster.idle
        runner.call.cancel()


async def test_a_repeated_report_is_answered_once_the_database_is_back(
    database: str, ports: PortPool
) -> None:
    address = urlsplit(database)
    async with TcpProxy("127.0.0.1", address.port or 0) as proxy:
        host = f"{address.username}:{address.password}@127.0.0.1:{proxy.port}"
        async with (
            d.opened(urlunsplit(address._replace(netloc=host))) as db,
            served(db, ports.take()) as (one, channel),
        ):
            await d.make_queue(db)
            job_id = await d.store_one(db)
            (lease,) = d.leases(await d.claim_all(db, [job_id], await d.attach(db)))
            ended = d.succeeded(lease)
            await d.report(db, ended)
            runner = Runner(channel)
            await runner.attach()
            proxy.cut()
            before = proxy.accepted
            await runner.say(reports=pb.Reports(reports=[ended.report]))
            await until(lambda: proxy.accepted > before, timeout=5, describe="it was looked up")
            proxy.restore()
            while not (said := await runner.hear()).HasField("report_acks"):
                pass
            assert said.report_acks.acks[0].status == pb.REPORT_STATUS_RECORDED
            assert len(one.roster) == 1  # its stream stands
            runner.call.cancel()


async def test_a_runner_that_has_taken_its_leave_is_heard_by_a_dispatcher_that_stops(
    database: str, ports: PortPool
) -> None:
    async with d.opened(database) as db:
        async with served(db, ports.take()) as (one, channel):
            runner = Runner(channel)
            await runner.attach()
            (attachment,) = one.roster
            locked = asyncio.Event()
            held = asyncio.create_task(_hold(db, attachment.session_id, locked))
            await asyncio.wait_for(locked.wait(), 5)
            await runner.say(bye=pb.Bye())
            await until(lambda: attachment.bye, timeout=5)
        await held
        (row,) = await db.fetch("SELECT end_reason FROM jobmesh.sessions")
        assert row["end_reason"] == "bye"


async def _hold(db: Database, session_id: UUID, locked: asyncio.Event) -> None:
    """Keep the session's row until somebody waits for it, and for as long as a stop takes."""
    async with db.transaction() as connection:
        await connection.execute(
            "SELECT 1 FROM jobmesh.sessions WHERE session_id = $1 FOR UPDATE", session_id
        )
        locked.set()
        await d.blocked(db)
        await asyncio.sleep(1)
