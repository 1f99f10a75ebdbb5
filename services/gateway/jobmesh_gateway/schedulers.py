"""The way to the schedulers: one balanced channel, beside that to the dispatchers."""

from __future__ import annotations

from collections.abc import Awaitable, Sequence
from typing import TYPE_CHECKING, TypeVar

import grpc.aio

from jobmesh.errors import BackendUnavailable, from_rpc_error
from jobmesh.server.channels import open_channel, resolve
from jobmesh.v1.scheduler_service_pb2_grpc import SchedulerServiceStub
from jobmesh_gateway.dispatchers import answer

if TYPE_CHECKING:
    from jobmesh.v1.scheduler_service_pb2_grpc import SchedulerServiceAsyncStub

R = TypeVar("R")

SERVICE = "jobmesh.v1.SchedulerService"


class Schedulers:
    """All schedulers, behind one stub. A lifecycle part. Without any, jobs go on."""

    stub: SchedulerServiceAsyncStub

    def __init__(self, targets: Sequence[str]) -> None:
        self._targets = targets
        self._channel: grpc.aio.Channel | None = None

    async def start(self) -> None:
        """Open the channel; it connects when it is used."""
        self._channel = open_channel(await resolve(self._targets), SERVICE)
        self.stub = SchedulerServiceStub(self._channel)

    async def stop(self) -> None:
        """Close the channel."""
        channel, self._channel = self._channel, None
        if channel is not None:
            await channel.close(None)


async def scheduled(call: Awaitable[R]) -> R:
    """The answer of a scheduler.

    :raises JobmeshError: its own, unchanged; `BackendUnavailable` if none answered.
    """
    try:
        return await answer(call)
    except BackendUnavailable as error:
        # It was not a dispatcher that did not answer, unless the scheduler says so itself.
        cause = error.__cause__
        if isinstance(cause, grpc.aio.AioRpcError) and not from_rpc_error(cause).from_jobmesh:
            raise BackendUnavailable("scheduler") from cause
        raise
