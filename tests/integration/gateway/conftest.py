"""A gateway between a caller and a peer that stands for the dispatchers."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import pytest

from jobmesh.channels import open_channel
from jobmesh.v1.job_service_pb2_grpc import JobServiceStub
from jobmesh.v1.queue_service_pb2_grpc import QueueServiceStub
from jobmesh_gateway.config import GatewayConfig
from jobmesh_gateway.main import Gateway
from tests.integration.gateway.peer import Peer, serving
from tests.support.wait import until

if TYPE_CHECKING:
    from jobmesh.v1.job_service_pb2_grpc import JobServiceAsyncStub
    from jobmesh.v1.queue_service_pb2_grpc import QueueServiceAsyncStub


@asynccontextmanager
async def running(gateway: Gateway) -> AsyncIterator[Gateway]:
    """Start its parts, and stop them in reverse."""
    started = []
    try:
        for part in gateway.parts():
            started.append(part)
            await part.start()
        yield gateway
    finally:
        for part in reversed(started):
            await part.stop()


def config(dispatcher: str, nats_url: str, **settings: object) -> GatewayConfig:
    return GatewayConfig(
        dispatchers=(dispatcher,),
        nats_url=nats_url,
        port=0,
        http_port=0,
        **settings,  # type: ignore[arg-type]
    )


@pytest.fixture
async def peer_and_address(nats_url: str) -> AsyncIterator[tuple[Peer, str]]:
    peer = Peer()  # type: ignore[abstract]  # without what only leaders call
    async with serving(peer, nats_url) as server:
        yield peer, server.address


@pytest.fixture
def peer(peer_and_address: tuple[Peer, str]) -> Peer:
    return peer_and_address[0]


@pytest.fixture
async def gateway(peer_and_address: tuple[Peer, str], nats_url: str) -> AsyncIterator[Gateway]:
    async with running(
        Gateway(config(peer_and_address[1], nats_url), drain_seconds=0.0)
    ) as gateway:
        await until(lambda: gateway.feed.connected)
        yield gateway


@pytest.fixture
async def jobs(gateway: Gateway) -> AsyncIterator[JobServiceAsyncStub]:
    channel = open_channel(gateway.server.address, "jobmesh.v1.JobService")
    yield JobServiceStub(channel)
    await channel.close(None)


@pytest.fixture
async def queues(gateway: Gateway) -> AsyncIterator[QueueServiceAsyncStub]:
    channel = open_channel(gateway.server.address, "jobmesh.v1.QueueService")
    yield QueueServiceStub(channel)
    await channel.close(None)
