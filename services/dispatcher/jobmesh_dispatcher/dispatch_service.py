"""DispatchService: what gateways ask for. What the leader asks for is in `leader_calls.py`."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING
from uuid import UUID, uuid4

from jobmesh import __version__
from jobmesh.errors import NotFound
from jobmesh.v1 import dispatch_service_pb2 as pb
from jobmesh.v1.dispatch_service_pb2_grpc import DispatchServiceServicer
from jobmesh.v1.job_pb2 import JOB_VIEW_FULL, Job
from jobmesh_dispatcher.firings import Firings
from jobmesh_dispatcher.leader_calls import LeaderCalls
from jobmesh_dispatcher.sql import load
from jobmesh_dispatcher.store.cancel import Cancelled, cancel
from jobmesh_dispatcher.store.queues import QueueChange, change_queue, read_queues, set_paused
from jobmesh_dispatcher.store.reads import find_jobs, read_attempts, read_jobs, read_log_page
from jobmesh_dispatcher.store.release import release_held
from jobmesh_dispatcher.store.revive import revive_once

if TYPE_CHECKING:
    import grpc
    from asyncpg import Record

    from jobmesh_dispatcher.after_commit import AfterCommit
    from jobmesh_dispatcher.database import Connection, Database
    from jobmesh_dispatcher.intake import Intake
    from jobmesh_dispatcher.queue_cache import QueueCache
    from jobmesh_dispatcher.roster import Roster
    from jobmesh_dispatcher.sessions import Sessions
    from jobmesh_dispatcher.store.outbox import OutboxMessage

    Context = grpc.aio.ServicerContext[object, object]


class DispatchService(LeaderCalls, DispatchServiceServicer):
    """Serves gateways and the scheduler.

    :param calls: for calls about single jobs, which are found by their ids.
    :param lookups: for all others.
    """

    def __init__(
        self,
        calls: Database,
        lookups: Database,
        intake: Intake,
        queues: QueueCache,
        roster: Roster,
        sessions: Sessions,
        after_commit: AfterCommit,
        *,
        dispatcher_id: str,
        **leader: object,
    ) -> None:
        super().__init__(lookups, sessions, after_commit, **leader)  # type: ignore[arg-type]
        self._calls = calls
        self._intake = intake
        self._queues = queues
        self._roster = roster
        self._dispatcher_id = dispatcher_id
        self._firings = Firings(lookups, queues, after_commit, self._stop_handler)

    async def SubmitJobs(
        self, request: pb.SubmitJobsRequest, context: Context
    ) -> pb.SubmitJobsResponse:
        """Store jobs."""
        return await self._intake.submit(request)

    async def ReadJobs(self, request: pb.ReadJobsRequest, context: Context) -> pb.ReadJobsResponse:
        """Read jobs by id."""
        async with self._calls.connection() as connection:
            jobs = await read_jobs(connection, request.namespace, request.job_ids, request.view)
        return pb.ReadJobsResponse(jobs=jobs)

    async def FindJobs(self, request: pb.FindJobsRequest, context: Context) -> pb.FindJobsResponse:
        """Read a page of jobs."""
        async with self._database.transaction() as connection:
            page = await find_jobs(connection, request.namespace, request.request)
        return pb.FindJobsResponse(page=page)

    async def ReadAttempts(
        self, request: pb.ReadAttemptsRequest, context: Context
    ) -> pb.ReadAttemptsResponse:
        """Read a job's attempts."""
        async with self._calls.connection() as connection:
            attempts = await read_attempts(connection, request.namespace, request.job_id)
        return pb.ReadAttemptsResponse(attempts=attempts)

    async def ReadLogPage(
        self, request: pb.ReadLogPageRequest, context: Context
    ) -> pb.ReadLogPageResponse:
        """Read a page of a job's log."""
        async with self._calls.connection() as connection:
            lines = await read_log_page(
                connection,
                request.namespace,
                request.job_id,
                request.after_sequence,
                request.page_size,
            )
        return pb.ReadLogPageResponse(lines=lines)

    async def CountRunners(
        self, request: pb.CountRunnersRequest, context: Context
    ) -> pb.CountRunnersResponse:
        """Count the runners of the mesh."""
        response = pb.CountRunnersResponse()
        for row in await self._database.fetch(load("count_runners")):
            response.groups.add(version=row["version"], runners=row["runners"], slots=row["slots"])
            response.dispatchers = row["dispatchers"]
        return response

    async def StopJob(self, request: pb.StopJobRequest, context: Context) -> pb.StopJobResponse:
        """Cancel a job."""
        wanted = request.request
        job_id = UUID(wanted.job_id)
        expected = wanted.expected_revision if wanted.HasField("expected_revision") else None

        async def act(connection: Connection) -> tuple[Cancelled, Job]:
            done = await cancel(connection, request.namespace, job_id, wanted.reason, expected)
            return done, await _read_job(connection, request.namespace, wanted.job_id)

        done, job = await self._calls.run(act)
        self._after_commit.changed([done.row] if done.row else [], [])
        if done.session_id is not None:
            self._stop_handler(job_id, done.session_id)
        return pb.StopJobResponse(job=job)

    def _stop_handler(self, job_id: UUID, session_id: UUID) -> None:
        if self._roster.get(session_id) is not None:
            self._sessions.tell_cancelled()
        else:
            self._after_commit.nudges.cancel(job_id, session_id)

    async def ReviveJob(
        self, request: pb.ReviveJobRequest, context: Context
    ) -> pb.ReviveJobResponse:
        """Queue a terminal job again; the job as it stands if that was done before."""
        wanted = request.request
        operation_id = UUID(request.operation_id) if request.operation_id else uuid4()

        async def act(connection: Connection) -> tuple[list[Record], list[OutboxMessage], Job]:
            done = await revive_once(connection, operation_id, request.namespace, wanted)
            return *done, await _read_job(connection, request.namespace, wanted.job_id)

        rows, messages, job = await self._calls.run(act)
        self._after_commit.changed(rows, messages)
        return pb.ReviveJobResponse(job=job)

    async def ReadQueues(
        self, request: pb.ReadQueuesRequest, context: Context
    ) -> pb.ReadQueuesResponse:
        """Read queues."""
        async with self._database.connection() as connection:
            page = await read_queues(connection, request.namespace, request.names, request.page)
        return pb.ReadQueuesResponse(queues=page.queues, next_page_token=page.next_page_token)

    async def ChangeQueue(
        self, request: pb.ChangeQueueRequest, context: Context
    ) -> pb.ChangeQueueResponse:
        """Change a queue's settings."""
        change = await self._database.run(
            lambda c: change_queue(c, request.namespace, request.request)
        )
        await self._follow_up(request.namespace, change)
        return pb.ChangeQueueResponse(queue=change.queue)

    async def SetQueuePaused(
        self, request: pb.SetQueuePausedRequest, context: Context
    ) -> pb.SetQueuePausedResponse:
        """Pause or resume a queue."""
        change = await self._database.run(
            lambda c: set_paused(c, request.namespace, request.name, request.paused, request.note)
        )
        await self._follow_up(request.namespace, change)
        return pb.SetQueuePausedResponse(queue=change.queue)

    async def _follow_up(self, namespace: str, change: QueueChange) -> None:
        """Release what the change lets go, the first few thousand at once.

        Reconciliation releases the rest.
        """
        self._queues.changed(namespace, change.queue.name)
        for reason in change.ended_holds:
            release = partial(
                release_held, namespace=namespace, queue=change.queue.name, reason=reason
            )
            self._after_commit.changed([], await self._database.run(release))

    async def FireSchedules(
        self, request: pb.FireSchedulesRequest, context: Context
    ) -> pb.FireSchedulesResponse:
        """Fire schedules, each time once."""
        return pb.FireSchedulesResponse(answers=await self._firings.fire(request))

    async def FireBuffered(
        self, request: pb.FireBufferedRequest, context: Context
    ) -> pb.FireBufferedResponse:
        """Fire what waited for its turn."""
        submitted = await self._firings.release(request.epoch, request.limit)
        return pb.FireBufferedResponse(submitted=submitted)

    async def DescribeDispatcher(
        self, request: pb.DescribeDispatcherRequest, context: Context
    ) -> pb.DescribeDispatcherResponse:
        """Say who this is, and who is attached."""
        sessions = [
            pb.SessionInfo(
                runner_id=a.runner_id,
                session_id=str(a.session_id),
                attachment=str(a.id),
                dispatcher_id=self._dispatcher_id,
                slots=a.slots,
                held=len(a.leases),
                types=sorted(a.types),
            )
            for a in self._roster
        ]
        return pb.DescribeDispatcherResponse(
            dispatcher_id=self._dispatcher_id, version=__version__, sessions=sessions
        )


async def _read_job(connection: Connection, namespace: str, job_id: str) -> Job:
    """The job as the decision leaves it: read in its transaction, before anybody can go on."""
    jobs = await read_jobs(connection, namespace, [job_id], JOB_VIEW_FULL)
    if not jobs:
        raise NotFound.job(job_id)
    return jobs[0]
