"""The one way in which the client calls the mesh: with a deadline, credentials and patience."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
from collections.abc import AsyncGenerator, Iterator
from typing import TYPE_CHECKING, TypeVar

import grpc
import grpc.aio

from jobmesh.channels import open_channel, resolve
from jobmesh.client.credentials import Credentials
from jobmesh.client.patience import Patience
from jobmesh.errors import DeadlineExceeded, JobmeshError, Unavailable, from_rpc_error
from jobmesh.v1 import (
    job_service_pb2_grpc,
    mesh_service_pb2_grpc,
    queue_service_pb2_grpc,
    schedule_service_pb2_grpc,
)

if TYPE_CHECKING:
    from jobmesh.v1.job_service_pb2_grpc import JobServiceAsyncStub
    from jobmesh.v1.mesh_service_pb2_grpc import MeshServiceAsyncStub
    from jobmesh.v1.queue_service_pb2_grpc import QueueServiceAsyncStub
    from jobmesh.v1.schedule_service_pb2_grpc import ScheduleServiceAsyncStub

Q = TypeVar("Q")
R = TypeVar("R")

SERVICES = tuple(f"jobmesh.v1.{name}Service" for name in ("Job", "Mesh", "Queue", "Schedule"))
# Streams opened before all replicas are connected would all land on the first one.
SPREAD_SECONDS = 1.0


@dataclasses.dataclass(frozen=True, slots=True)
class Connection:
    """Where the mesh is, and how long to wait for it; seconds."""

    address: str
    timeout: float
    patience: float
    credentials: Credentials

    @property
    def patience_once_begun(self) -> float:
        """For what goes on until its job ends: the longer of ``patience`` and ``timeout``.

        Also whoever wants to hear at once that no mesh is there wants it to survive a rollout.
        """
        return max(self.patience, self.timeout)


class Calls:
    """The channel to the gateways and the calls made through it.

    Once it is closed, calls raise a JobmeshError with the reason ``CLIENT_CLOSED``, also those that
    other tasks are in the middle of.
    """

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self._channel: grpc.aio.Channel | None = None
        self._was_closed = False
        self._jobs: JobServiceAsyncStub
        self._queues: QueueServiceAsyncStub
        self._schedules: ScheduleServiceAsyncStub
        self._mesh: MeshServiceAsyncStub

    @property
    def jobs(self) -> JobServiceAsyncStub:
        """What can be asked about jobs."""
        self.require_open()
        return self._jobs

    @property
    def queues(self) -> QueueServiceAsyncStub:
        """What can be asked about queues."""
        self.require_open()
        return self._queues

    @property
    def schedules(self) -> ScheduleServiceAsyncStub:
        """What can be asked about schedules."""
        self.require_open()
        return self._schedules

    @property
    def mesh(self) -> MeshServiceAsyncStub:
        """What can be asked about the mesh itself."""
        self.require_open()
        return self._mesh

    def require_open(self) -> None:
        """Raise RuntimeError if there is no channel yet, JobmeshError if there is none any more."""
        if self._was_closed:
            raise _client_closed()
        if self._channel is None:
            raise RuntimeError(
                "the client is not connected: use `async with jobmesh.connect(...) as mesh:`"
            )

    async def open(self) -> None:
        """Make the channel; it connects by itself, and again whenever it must.

        Raises:
            ValueError: the address is malformed.
            Unavailable: the name of a host cannot be resolved.
        """
        targets = await self._targets()
        self._channel = open_channel(targets, SERVICES)
        self._was_closed = False
        self._jobs = job_service_pb2_grpc.JobServiceStub(self._channel)
        self._queues = queue_service_pb2_grpc.QueueServiceStub(self._channel)
        self._schedules = schedule_service_pb2_grpc.ScheduleServiceStub(self._channel)
        self._mesh = mesh_service_pb2_grpc.MeshServiceStub(self._channel)
        if len(targets) > 1:
            await self._connect()

    async def close(self) -> None:
        """End all calls and close the channel; may be called again."""
        channel, self._channel = self._channel, None
        if channel is not None:
            self._was_closed = True
            await channel.close(None)

    async def _targets(self) -> list[str]:
        try:
            return await resolve(self.connection.address)
        except OSError as error:
            why = str(error.strerror or error) or "no answer in time"
            raise Unavailable(
                f"cannot resolve a name in {self.connection.address}: {why}"
            ) from error

    async def _connect(self) -> None:
        assert self._channel is not None
        try:
            async with asyncio.timeout(SPREAD_SECONDS):
                await self._channel.channel_ready()
        except TimeoutError:
            pass  # the first call will say what is wrong

    async def unary(self, method: grpc.aio.UnaryUnaryMultiCallable[Q, R], request: Q) -> R:
        """The answer to a call that may be repeated: it is, while the mesh is unavailable.

        All tries together take the connection's timeout at the longest.

        Raises:
            JobmeshError: of the kind that the mesh answered.
        """
        clock = asyncio.get_running_loop().time
        deadline = clock() + self.connection.timeout
        patience = Patience(min(self.connection.patience, self.connection.timeout))
        while True:
            try:
                return await self.try_once(method, request, timeout=max(deadline - clock(), 0.001))
            except Unavailable as error:
                failure = error
            await patience.pause(failure)

    async def try_once(
        self, method: grpc.aio.UnaryUnaryMultiCallable[Q, R], request: Q, *, timeout: float
    ) -> R:
        """The answer to one try; for callers with a patience of their own.

        Raises:
            JobmeshError: of the kind that the mesh answered.
        """
        metadata = self.connection.credentials.metadata()
        with self._errors_as_ours():
            return await method(request, timeout=timeout, metadata=metadata)

    async def stream(
        self,
        method: grpc.aio.UnaryStreamMultiCallable[Q, R],
        request: Q,
        *,
        timeout: float,
    ) -> AsyncGenerator[R, None]:
        """The messages of one stream; it is cancelled when the reader goes away.

        Raises:
            JobmeshError: of the kind that the stream ended with.
        """
        metadata = self.connection.credentials.metadata()
        with self._errors_as_ours():
            call = method(request, timeout=timeout, metadata=metadata)
            try:
                async for message in call:
                    yield message
            finally:
                call.cancel()

    @contextlib.contextmanager
    def _errors_as_ours(self) -> Iterator[None]:
        """What gRPC raises, as a JobmeshError; only a cancellation of the task itself stays one."""
        channel = self._channel
        try:
            yield
        except grpc.aio.AioRpcError as error:
            raise self.explain(error) from error
        except grpc.aio.UsageError as error:
            raise _client_closed() from error  # between two tries
        except asyncio.CancelledError:
            # A closed channel ends its calls as if the tasks that wait for them were cancelled.
            if self._channel is channel or _is_cancelled():
                raise
            raise _client_closed() from None

    def explain(self, error: grpc.aio.AioRpcError) -> JobmeshError:
        """The failure as an error of ours that says where we tried."""
        failure = from_rpc_error(error)
        details = error.details() or ""
        address = self.connection.address
        if failure.from_jobmesh:
            return failure
        if isinstance(failure, Unavailable):
            why = cause_of(details) or "no answer"
            return Unavailable(f"cannot reach the mesh at {address}: {why}")
        if isinstance(failure, DeadlineExceeded):
            return DeadlineExceeded(f"no answer from the mesh at {address} in time")
        return failure


def _client_closed() -> JobmeshError:
    # Nothing that is worth being tried again, as Unavailable is.
    return JobmeshError(
        "the client was closed", code=grpc.StatusCode.CANCELLED, reason="CLIENT_CLOSED"
    )


def _is_cancelled() -> bool:
    task = asyncio.current_task()
    return task is None or task.cancelling() > 0


def cause_of(details: str) -> str:
    """The last cause in gRPC's message, without the address, which we name ourselves."""
    last = details.rpartition("last error: ")[2]
    return last.rpartition("Failed to connect to remote host: ")[2]
