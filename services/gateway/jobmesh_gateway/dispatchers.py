"""The way to the dispatchers: one balanced channel, deadlines, and what a failure means."""

from __future__ import annotations

from collections.abc import Awaitable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar, cast

import grpc
import grpc.aio

from jobmesh.errors import BackendUnavailable, JobmeshError, from_rpc_error
from jobmesh.server.channels import open_channel, resolve
from jobmesh.v1.dispatch_service_pb2 import DescribeDispatcherRequest
from jobmesh.v1.dispatch_service_pb2_grpc import DispatchServiceStub

if TYPE_CHECKING:
    from jobmesh.v1.dispatch_service_pb2_grpc import DispatchServiceAsyncStub

R = TypeVar("R")
Context = grpc.aio.ServicerContext[Any, Any]

SERVICE = "jobmesh.v1.DispatchService"
# Longer than it takes to notice that a dispatcher is frozen (7 s) and to ask another one.
CALL_SECONDS = 10.0
PROBE_SECONDS = 1.5
_GONE = frozenset(
    {
        grpc.StatusCode.UNAVAILABLE,
        grpc.StatusCode.DEADLINE_EXCEEDED,
        grpc.StatusCode.CANCELLED,
    }
)


class AnswerTooLarge(JobmeshError):
    """What was asked for does not fit into one message."""

    default_code = grpc.StatusCode.RESOURCE_EXHAUSTED
    default_reason = "ANSWER_TOO_LARGE"

    def __init__(self) -> None:
        super().__init__("the answer is over 16 MiB; ask for fewer jobs or for the BASIC view")


class Dispatchers:
    """All dispatchers, behind one stub. A lifecycle part."""

    stub: DispatchServiceAsyncStub

    def __init__(self, targets: Sequence[str]) -> None:
        self._targets = targets
        self._channel: grpc.aio.Channel | None = None

    async def start(self) -> None:
        """Open the channel; it connects when it is used."""
        self._channel = open_channel(await resolve(self._targets), SERVICE)
        self.stub = DispatchServiceStub(self._channel)

    async def stop(self) -> None:
        """Close the channel."""
        channel, self._channel = self._channel, None
        if channel is not None:
            await channel.close(None)

    async def check(self) -> None:
        """Raise unless a dispatcher answers."""
        await answer(
            self.stub.DescribeDispatcher(DescribeDispatcherRequest(), timeout=PROBE_SECONDS)
        )


def seconds_for(context: Context) -> float:
    """The deadline of a call that is made for this one, in seconds."""
    remaining = cast("float | None", context.time_remaining())  # none without a deadline
    return CALL_SECONDS if remaining is None else max(min(CALL_SECONDS, remaining), 0.001)


async def answer(call: Awaitable[R]) -> R:
    """The answer to a call of a dispatcher.

    :raises JobmeshError: the dispatcher's own, unchanged; `BackendUnavailable` if none answered.
    """
    try:
        return await call
    except grpc.aio.AioRpcError as error:
        raise _judge(error) from error


def _judge(error: grpc.aio.AioRpcError) -> Exception:
    known = from_rpc_error(error)
    if known.from_jobmesh:
        return known
    if known.code in _GONE:
        return BackendUnavailable("dispatcher")
    if known.code is grpc.StatusCode.RESOURCE_EXHAUSTED:
        return AnswerTooLarge()
    return error  # a defect: logged, and told as an internal error, by the server
