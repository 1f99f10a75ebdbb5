"""A leader with a real dispatcher: due jobs queued, silent sessions ended, old epochs refused."""

from __future__ import annotations

import uuid
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import asyncpg
import grpc.aio
import pytest

from jobmesh.channels import open_channel
from jobmesh.dev.ports import PortPool
from jobmesh.ids import new_id
from jobmesh.v1 import dispatch_service_pb2 as pb
from jobmesh.v1 import job_pb2
from jobmesh.v1.dispatch_service_pb2_grpc import DispatchServiceStub
from jobmesh_scheduler.dispatch import LeaderCalls, LeadershipLost
from tests.support.process import ServiceProcess
from tests.support.wait import until

ROOM = 20.0
SESSION_LEASE = 2.0
SESSION = """
INSERT INTO jobmesh.sessions
    (session_id, attachment, runner_id, namespace, dispatcher_id, slots, types, queues, version)
VALUES ($1, $2, 'gone', 'default', $3, 1, '{}', '{}', 'test')
"""


class Mesh:
    """A dispatcher and a scheduler on one database."""

    def __init__(self, dsn: str, nats_url: str, ports: PortPool, logs: Path) -> None:
        self.address = f"127.0.0.1:{ports.take()}"
        shared = {
            "JOBMESH_POSTGRES_DSN": dsn,
            "JOBMESH_NATS_URL": nats_url,
            "JOBMESH_DISPATCHERS": self.address,
            "JOBMESH_SESSION_LEASE_SECONDS": str(SESSION_LEASE),
        }
        self.dispatcher = ServiceProcess(
            "dispatcher",
            shared
            | {
                "JOBMESH_PORT": self.address.rpartition(":")[2],
                "JOBMESH_HTTP_PORT": str(ports.take()),
            },
            logs / "dispatcher.log",
        )
        self.scheduler = ServiceProcess(
            "scheduler",
            shared | {"JOBMESH_PORT": "0", "JOBMESH_HTTP_PORT": str(ports.take())},
            logs / "scheduler.log",
        )


@pytest.fixture
async def mesh(
    database: str, nats_url: str, ports: PortPool, tmp_path: Path
) -> AsyncIterator[Mesh]:
    made = Mesh(database, nats_url, ports, tmp_path)
    async with made.dispatcher, made.scheduler:
        await made.dispatcher.ready()
        await made.scheduler.ready()
        yield made


@pytest.fixture
async def connection(database: str) -> AsyncIterator[asyncpg.Connection]:
    connection = await asyncpg.connect(database, timeout=10, command_timeout=10)
    yield connection
    await connection.close(timeout=5)


@pytest.fixture
async def channel(mesh: Mesh) -> AsyncIterator[grpc.aio.Channel]:
    async with open_channel([mesh.address]) as channel:
        yield channel


async def submit_due_in(channel: grpc.aio.Channel, seconds: float) -> str:
    spec = job_pb2.JobSpec(
        queue="default",
        type="later",
        priority=4,
        payload=job_pb2.Payload(data=b"{}", content_type="application/json"),
    )
    spec.run_at.FromDatetime(datetime.now(UTC) + timedelta(seconds=seconds))
    submission = pb.JobSubmission(job_id=new_id(), namespace="default", job=spec, digest=b"-")
    answer = await DispatchServiceStub(channel).SubmitJobs(
        pb.SubmitJobsRequest(operation_id=new_id(), submissions=[submission], atomic=True),
        timeout=10,
    )
    (result,) = answer.results
    assert result.HasField("ok"), result
    assert result.ok.job.state == job_pb2.JOB_STATE_SCHEDULED
    return str(result.ok.job.job_id)


async def read(channel: grpc.aio.Channel, job_id: str) -> job_pb2.Job:
    request = pb.ReadJobsRequest(namespace="default", job_ids=[job_id], view=job_pb2.JOB_VIEW_FULL)
    answer = await DispatchServiceStub(channel).ReadJobs(request, timeout=10)
    (job,) = answer.jobs
    return job


async def test_a_scheduled_job_is_queued_when_it_is_due(
    channel: grpc.aio.Channel,
) -> None:
    job_id = await submit_due_in(channel, 1.5)

    async def queued() -> job_pb2.Job | None:
        job = await read(channel, job_id)
        return job if job.state == job_pb2.JOB_STATE_QUEUED else None

    job = await until(queued, ROOM)
    assert job is not None
    due = job.spec.run_at.ToDatetime()
    late = job.history[-1].time.ToDatetime() - due
    # A quarter of a second at rest; the rest is for a machine that does much else.
    assert timedelta() <= late < timedelta(seconds=2)


async def test_a_session_that_nobody_renews_is_ended_after_its_lease(
    mesh: Mesh, connection: asyncpg.Connection
) -> None:
    session = uuid.uuid4()
    began = await connection.fetchval("SELECT clock_timestamp()")
    await connection.execute(SESSION, session, uuid.uuid4(), uuid.uuid4())

    async def ended() -> asyncpg.Record | None:
        row: asyncpg.Record | None = await connection.fetchrow(
            "SELECT end_time, end_reason FROM jobmesh.sessions"
            " WHERE session_id = $1 AND end_time IS NOT NULL",
            session,
        )
        return row

    row = await until(ended, SESSION_LEASE + ROOM, mesh.scheduler.log.read_text)
    assert row is not None
    assert row["end_time"] - began >= timedelta(seconds=SESSION_LEASE)
    assert row["end_reason"] == "silent"


async def test_tomorrows_partitions_are_there_today(
    mesh: Mesh, connection: asyncpg.Connection
) -> None:
    query = "SELECT count(*) FROM pg_inherits WHERE inhparent = 'jobmesh.jobs_succeeded'::regclass"

    async def made() -> bool:
        return int(await connection.fetchval(query)) >= 3  # today, tomorrow, the rest

    await until(made, ROOM, mesh.scheduler.log.read_text)


async def test_a_former_leader_is_refused_every_act(
    mesh: Mesh, channel: grpc.aio.Channel, connection: asyncpg.Connection
) -> None:
    async def led() -> int | None:
        epoch: int | None = await connection.fetchval(
            "SELECT epoch FROM jobmesh.leadership WHERE holder IS NOT NULL"
        )
        return epoch

    epoch = await until(led, ROOM)
    assert epoch is not None
    calls, former = LeaderCalls(channel), epoch - 1
    assert (await calls.sessions(epoch)).sessions is not None
    session = pb.SessionInfo(session_id=new_id(), attachment=new_id(), counter=1)
    for act in (
        calls.promote(former, 10),
        calls.expire_jobs(former, 10),
        calls.sessions(former),
        calls.expire(former, session),
        calls.reconcile(former, 10),
        calls.retain(former),
    ):
        with pytest.raises(LeadershipLost):
            await act


async def test_a_leader_stands_down_when_told_that_its_epoch_is_over(
    mesh: Mesh, connection: asyncpg.Connection
) -> None:
    """Its row is taken from it between two renewals: the next act, or renewal, tells it."""

    async def leads() -> bool:
        return bool(await connection.fetchval("SELECT holder FROM jobmesh.leadership"))

    await until(leads, ROOM)
    await connection.execute("UPDATE jobmesh.leadership SET epoch = epoch + 1, holder = 'another'")
    await until(
        lambda: "no longer leads with epoch 1" in mesh.scheduler.log.read_text(),
        ROOM,
        mesh.scheduler.log.read_text,
    )
