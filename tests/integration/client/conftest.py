from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass

import pytest

import jobmesh
from jobmesh.server.grpc_server import GrpcServer, ServiceEntry
from jobmesh.v1.job_service_pb2_grpc import add_JobServiceServicer_to_server
from jobmesh.v1.queue_service_pb2_grpc import add_QueueServiceServicer_to_server
from tests.integration.client.peer import Jobs, QueueStore
from tests.support.proxy import TcpProxy

SERVICES = ("jobmesh.v1.JobService", "jobmesh.v1.QueueService")


@dataclass
class Gateway:
    """A server with its jobs and queues, and the way to it, which a test may cut."""

    jobs: Jobs
    queues: QueueStore
    proxy: TcpProxy
    address: str


def serve(jobs: Jobs, queues: QueueStore) -> GrpcServer:
    entries: list[ServiceEntry] = [
        (add_JobServiceServicer_to_server, jobs, SERVICES[0]),
        (add_QueueServiceServicer_to_server, queues, SERVICES[1]),
    ]
    return GrpcServer("127.0.0.1", 0, entries, drain_seconds=0.0, grace_seconds=0.1)


@pytest.fixture
async def gateway() -> AsyncIterator[Gateway]:
    jobs, queues = Jobs(), QueueStore()  # type: ignore[abstract]
    server = serve(jobs, queues)
    await server.start()
    try:
        async with TcpProxy("127.0.0.1", server.port) as proxy:
            yield Gateway(jobs, queues, proxy, proxy.address)
    finally:
        await server.stop()


@pytest.fixture
async def mesh(gateway: Gateway) -> AsyncIterator[jobmesh.Client]:
    async with jobmesh.connect(gateway.address, timeout=10) as client:
        yield client
