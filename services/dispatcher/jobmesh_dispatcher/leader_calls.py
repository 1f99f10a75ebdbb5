"""What the leader asks a dispatcher to do. Each act holds the leader's epoch in its transaction."""

from __future__ import annotations

from typing import TYPE_CHECKING
from uuid import UUID

from jobmesh.v1 import dispatch_service_pb2 as pb
from jobmesh_dispatcher.sql import load
from jobmesh_dispatcher.store.expire import expire
from jobmesh_dispatcher.store.leadership import hold_epoch, look
from jobmesh_dispatcher.store.promote import Promoted, promote
from jobmesh_dispatcher.store.retention import ensure_partitions, retain
from jobmesh_dispatcher.store.sessions import TakenBack, end_session

if TYPE_CHECKING:
    import grpc
    from asyncpg import Record

    from jobmesh_dispatcher.after_commit import AfterCommit
    from jobmesh_dispatcher.database import Connection, Database
    from jobmesh_dispatcher.reconciler import Reconciler
    from jobmesh_dispatcher.sessions import Sessions

    Context = grpc.aio.ServicerContext[object, object]


MAX_PROMOTED = 5000
MAX_EXPIRED = 1000
RETAIN_SECONDS = 20.0


class LeaderCalls:
    """The leader's part of DispatchService."""

    def __init__(
        self,
        database: Database,
        sessions: Sessions,
        after_commit: AfterCommit,
        reconciler: Reconciler,
    ) -> None:
        self._database = database
        self._sessions = sessions
        self._after_commit = after_commit
        self._reconciler = reconciler

    async def PromoteJobs(
        self, request: pb.PromoteJobsRequest, context: Context
    ) -> pb.PromoteJobsResponse:
        """Queue due jobs."""
        due: float | None = await look(self._database, "when_due", request.epoch)
        promoted = Promoted([], [], due)
        if due is not None and due <= 0:
            promoted = await self._promote(request.epoch, request.limit)
        response = pb.PromoteJobsResponse(promoted=len(promoted.rows))
        if promoted.next_due_seconds is not None:
            response.next_due_in.FromMicroseconds(int(promoted.next_due_seconds * 1e6))
        return response

    async def _promote(self, epoch: int, limit: int) -> Promoted:
        async def act(connection: Connection) -> Promoted:
            await hold_epoch(connection, epoch)
            return await promote(connection, min(limit or MAX_PROMOTED, MAX_PROMOTED))

        promoted = await self._database.run(act)
        self._after_commit.changed(promoted.rows, promoted.messages)
        return promoted

    async def ExpireJobs(
        self, request: pb.ExpireJobsRequest, context: Context
    ) -> pb.ExpireJobsResponse:
        """Cancel jobs that have waited for too long."""
        limit = min(request.limit or MAX_EXPIRED, MAX_EXPIRED)
        if not await look(self._database, "any_expired", request.epoch):
            return pb.ExpireJobsResponse()

        async def act(connection: Connection) -> list[Record]:
            await hold_epoch(connection, request.epoch)
            return await expire(connection, limit)

        rows = await self._database.run(act)
        self._after_commit.changed(rows, [])
        return pb.ExpireJobsResponse(expired=len(rows))

    async def ReadSessions(
        self, request: pb.ReadSessionsRequest, context: Context
    ) -> pb.ReadSessionsResponse:
        """Read the renewal counters."""
        async with self._database.transaction() as connection:
            await hold_epoch(connection, request.epoch)
            rows = await connection.fetch(load("live_sessions"))
        return pb.ReadSessionsResponse(
            sessions=[
                pb.SessionInfo(
                    runner_id=row["runner_id"],
                    session_id=str(row["session_id"]),
                    attachment=str(row["attachment"]),
                    counter=row["counter"],
                    dispatcher_id=str(row["dispatcher_id"]),
                    slots=row["slots"],
                    types=row["types"],
                )
                for row in rows
            ]
        )

    async def ExpireSession(
        self, request: pb.ExpireSessionRequest, context: Context
    ) -> pb.ExpireSessionResponse:
        """End a session whose counter stood still."""

        async def act(connection: Connection) -> TakenBack:
            await hold_epoch(connection, request.epoch)
            return await end_session(
                connection,
                UUID(request.session_id),
                UUID(request.attachment),
                "silent",
                counter=request.counter,
                crashed=True,
            )

        taken = await self._database.run(act)
        self._sessions.taken(taken)
        requeued = sum(row["state"] == "QUEUED" for row in taken.rows)
        return pb.ExpireSessionResponse(expired=taken.ended, requeued=requeued)

    async def Reconcile(
        self, request: pb.ReconcileRequest, context: Context
    ) -> pb.ReconcileResponse:
        """Repair what was left over."""
        return await self._reconciler.run(request.epoch, request.limit)

    async def Retain(self, request: pb.RetainRequest, context: Context) -> pb.RetainResponse:
        """Make partitions ahead and drop what is past its retention.

        Dropping what nobody may see any more needs no epoch: it is idempotent.
        """
        async with self._database.transaction() as connection:
            await hold_epoch(connection, request.epoch)
        async with self._database.connection() as connection:
            made = await ensure_partitions(connection)
            done = await retain(connection, RETAIN_SECONDS)
        return pb.RetainResponse(
            partitions_created=made,
            partitions_dropped=done.partitions,
            request_ids_dropped=done.request_ids + done.operations,
        )
