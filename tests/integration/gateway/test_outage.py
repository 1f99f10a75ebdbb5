"""A gateway without dispatchers answers quickly, and probes tell."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING
from urllib.error import HTTPError
from urllib.request import urlopen

import grpc
import pytest
from google.protobuf.duration_pb2 import Duration
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha.proto_reflection_descriptor_database import (
    ProtoReflectionDescriptorDatabase,
)

from jobmesh.channels import open_channel
from jobmesh.dev.ports import PortPool
from jobmesh.errors import BackendUnavailable, from_rpc_error
from jobmesh.ids import new_id
from jobmesh.v1 import job_service_pb2 as pb
from jobmesh.v1.job_pb2 import JobSpec
from jobmesh.v1.job_service_pb2_grpc import JobServiceStub
from jobmesh_gateway.main import Gateway
from tests.integration.gateway.conftest import config, running
from tests.integration.gateway.peer import Peer, serving
from tests.support.wait import until

if TYPE_CHECKING:
    from jobmesh.v1.job_service_pb2_grpc import JobServiceAsyncStub


def probe(address: str, path: str) -> tuple[int, str]:
    try:
        with urlopen(f"http://{address}{path}", timeout=5) as answer:
            return answer.status, answer.read().decode()
    except HTTPError as error:
        with error:
            return error.code, error.read().decode()


async def test_without_dispatchers_every_call_fails_soon_and_says_when_to_come_back(
    ports: PortPool, nats_url: str
) -> None:
    port = ports.take()
    async with running(
        Gateway(config(f"127.0.0.1:{port}", nats_url), drain_seconds=0.0)
    ) as gateway:
        channel = open_channel(gateway.server.address)
        stub: JobServiceAsyncStub = JobServiceStub(channel)
        job_id = new_id()
        calls: list[Callable[[], Awaitable[object]]] = [
            lambda: stub.SubmitJob(pb.SubmitJobRequest(job=JobSpec(type="a")), timeout=20),
            lambda: stub.GetJob(pb.GetJobRequest(job_id=job_id), timeout=20),
            lambda: stub.ListJobs(pb.ListJobsRequest(), timeout=20),
            lambda: stub.WaitJob(
                pb.WaitJobRequest(job_id=job_id, timeout=Duration(seconds=15)), timeout=20
            ),
            lambda: stub.WatchJob(pb.WatchJobRequest(job_id=job_id), timeout=20).read(),
        ]
        for call in calls:
            began = time.monotonic()
            with pytest.raises(grpc.aio.AioRpcError) as caught:
                await call()
            error = from_rpc_error(caught.value)
            assert isinstance(error, BackendUnavailable)
            assert error.retry_after == 1.0
            assert time.monotonic() - began < 6.0
        assert (await asyncio.to_thread(probe, gateway.http.address, "/livez"))[0] == 200
        status, body = await asyncio.to_thread(probe, gateway.http.address, "/readyz")
        assert (status, "dispatcher" in body) == (503, True)
        # Back again, calls succeed without a restart.
        peer = Peer()  # type: ignore[abstract]  # without what only leaders call
        async with serving(peer, nats_url, port):
            assert await until(lambda: submitted(stub))
        await channel.close(None)


async def submitted(stub: JobServiceAsyncStub) -> bool:
    try:
        request = pb.SubmitJobRequest(job=JobSpec(type="a"))
        return (await stub.SubmitJob(request, timeout=5)).created
    except grpc.aio.AioRpcError:
        return False


async def test_health_reflection_and_probes(gateway: Gateway) -> None:
    channel = open_channel(gateway.server.address)
    health = health_pb2_grpc.HealthStub(channel)  # type: ignore[no-untyped-call]
    for service in ("", "jobmesh.v1.JobService", "jobmesh.v1.QueueService"):
        answer = await health.Check(health_pb2.HealthCheckRequest(service=service), timeout=5)
        assert answer.status == health_pb2.HealthCheckResponse.SERVING
    await channel.close(None)
    assert "jobmesh.v1.JobService" in await asyncio.to_thread(services, gateway.server.address)
    assert (await asyncio.to_thread(probe, gateway.http.address, "/readyz"))[0] == 200
    status, metrics = await asyncio.to_thread(probe, gateway.http.address, "/metrics")
    assert status == 200
    assert "jobmesh_gateway_watches" in metrics


def services(address: str) -> list[str]:
    with grpc.insecure_channel(address) as channel:
        return list(ProtoReflectionDescriptorDatabase(channel).get_services())
