"""What the leader asks of dispatchers: each call under its epoch, each with a deadline."""

from __future__ import annotations

from collections.abc import Awaitable, Sequence
from typing import TYPE_CHECKING, TypeVar

import grpc
from google.protobuf.timestamp_pb2 import Timestamp

from jobmesh.errors import JobmeshError, from_rpc_error
from jobmesh.v1 import dispatch_service_pb2 as pb
from jobmesh.v1.dispatch_service_pb2_grpc import DispatchServiceStub

if TYPE_CHECKING:
    from jobmesh.v1.dispatch_service_pb2_grpc import DispatchServiceAsyncStub

R = TypeVar("R")

LEADERSHIP_LOST = "LEADERSHIP_LOST"
PROMOTE_TIMEOUT = 5.0
READ_TIMEOUT = 2.0  # an answer later than a quarter of a session's lease is worth nothing
EXPIRE_TIMEOUT = 5.0
FIRE_TIMEOUT = 5.0
RECONCILE_TIMEOUT = 15.0
RETAIN_TIMEOUT = 120.0


class LeadershipLost(Exception):
    """A dispatcher refused to act: the epoch is no longer the latest."""

    def __init__(self, epoch: int) -> None:
        self.epoch = epoch
        super().__init__(f"epoch {epoch} is over")


class LeaderCalls:
    """Calls any dispatcher of the mesh.

    Every method raises `LeadershipLost`, or a `JobmeshError` if the call failed.
    """

    def __init__(self, channel: grpc.aio.Channel) -> None:
        self._stub: DispatchServiceAsyncStub = DispatchServiceStub(channel)

    async def promote(self, epoch: int, limit: int) -> pb.PromoteJobsResponse:
        """Queue at most ``limit`` jobs that are due."""
        request = pb.PromoteJobsRequest(epoch=epoch, limit=limit)
        return await _answer(epoch, self._stub.PromoteJobs(request, timeout=PROMOTE_TIMEOUT))

    async def expire_jobs(self, epoch: int, limit: int) -> pb.ExpireJobsResponse:
        """Cancel at most ``limit`` jobs that have expired."""
        request = pb.ExpireJobsRequest(epoch=epoch, limit=limit)
        return await _answer(epoch, self._stub.ExpireJobs(request, timeout=PROMOTE_TIMEOUT))

    async def sessions(self, epoch: int) -> pb.ReadSessionsResponse:
        """Read the live sessions."""
        request = pb.ReadSessionsRequest(epoch=epoch)
        return await _answer(epoch, self._stub.ReadSessions(request, timeout=READ_TIMEOUT))

    async def expire(self, epoch: int, session: pb.SessionInfo) -> pb.ExpireSessionResponse:
        """End a session, if it still is as it was seen."""
        request = pb.ExpireSessionRequest(
            epoch=epoch,
            session_id=session.session_id,
            attachment=session.attachment,
            counter=session.counter,
        )
        return await _answer(epoch, self._stub.ExpireSession(request, timeout=EXPIRE_TIMEOUT))

    async def reconcile(self, epoch: int, limit: int) -> pb.ReconcileResponse:
        """Repair at most ``limit`` of each kind of thing."""
        request = pb.ReconcileRequest(epoch=epoch, limit=limit)
        return await _answer(epoch, self._stub.Reconcile(request, timeout=RECONCILE_TIMEOUT))

    async def retain(self, epoch: int) -> pb.RetainResponse:
        """Make room ahead, drop what is past its retention."""
        now = Timestamp()
        now.GetCurrentTime()
        request = pb.RetainRequest(epoch=epoch, time=now)
        return await _answer(epoch, self._stub.Retain(request, timeout=RETAIN_TIMEOUT))

    async def fire(self, epoch: int, orders: Sequence[pb.FiringOrder]) -> list[pb.FiringAnswer]:
        """Fire schedules; epoch 0 for what a caller asked for. Answers in the order of orders."""
        request = pb.FireSchedulesRequest(epoch=epoch, orders=orders)
        call = self._stub.FireSchedules(request, timeout=FIRE_TIMEOUT)
        return list((await _answer(epoch, call)).answers)

    async def fire_buffered(self, epoch: int, limit: int) -> int:
        """Fire what waited for its turn; how many."""
        request = pb.FireBufferedRequest(epoch=epoch, limit=limit)
        call = self._stub.FireBuffered(request, timeout=FIRE_TIMEOUT)
        return (await _answer(epoch, call)).submitted


async def _answer(epoch: int, call: Awaitable[R]) -> R:
    try:
        return await call
    except grpc.aio.AioRpcError as error:
        raise _cause(epoch, from_rpc_error(error)) from error


def _cause(epoch: int, error: JobmeshError) -> Exception:
    return LeadershipLost(epoch) if error.reason == LEADERSHIP_LOST else error
