"""Taking submissions in: calls of gateways that wait together are stored together.

They share a transaction, those that are all or nothing, too: should one of these have to be
refused, all is undone, and the others are stored without it. If the server refuses the data of a
batch, it is halved until the row at fault stands alone: one bad row costs its own call, and no
other.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING
from uuid import UUID, uuid5

import asyncpg

from jobmesh.batching import Batcher
from jobmesh.errors import InvalidField, JobmeshError, NotFound, to_status
from jobmesh.server.metrics import counter, histogram
from jobmesh.v1.dispatch_service_pb2 import SubmitJobsRequest, SubmitJobsResponse, SubmitJobsResult
from jobmesh.v1.job_pb2 import JOB_VIEW_BASIC, Job, JobState
from jobmesh.v1.job_service_pb2 import SubmitJobResponse
from jobmesh_dispatcher import failpoints
from jobmesh_dispatcher.store.reads import read_jobs
from jobmesh_dispatcher.store.submit import (
    NO_SEATS,
    Call,
    Outcome,
    Refused,
    Stored,
    deal,
    is_one_statement,
    is_refused,
    store_calls,
)
from jobmesh_dispatcher.submission import Submission, read_submission

if TYPE_CHECKING:
    from jobmesh_dispatcher.after_commit import AfterCommit
    from jobmesh_dispatcher.claiming import Seat
    from jobmesh_dispatcher.database import Database
    from jobmesh_dispatcher.queue_cache import QueueCache
    from jobmesh_dispatcher.store.outbox import OutboxMessage
    from jobmesh_dispatcher.straight import Straight

log = logging.getLogger(__name__)

JOBS_A_BATCH = 5000
BATCH_BYTES = 8 << 20
MAX_WAITING = 20_000
FLIGHTS = 2
STORED = counter("jobmesh_jobs_submitted_total", "Jobs stored by this dispatcher.")
STORE = histogram("jobmesh_submit_seconds", "How long storing a batch of calls took.")


class Intake:
    """Stores submissions."""

    def __init__(
        self,
        database: Database,
        queues: QueueCache,
        after_commit: AfterCommit,
        straight: Straight,
    ) -> None:
        self._database = database
        self._straight = straight
        self._queues = queues
        self._after_commit = after_commit
        self._batcher: Batcher[Call, list[Outcome]] = Batcher(
            self._flush,
            max_items=JOBS_A_BATCH,
            max_bytes=BATCH_BYTES,
            max_waiting=MAX_WAITING,
            flights=FLIGHTS,
            name="intake",
        )

    async def start(self) -> None:
        """Accept submissions."""
        await self._batcher.start()

    async def stop(self) -> None:
        """Store what was accepted."""
        await self._batcher.stop()

    async def submit(self, request: SubmitJobsRequest) -> SubmitJobsResponse:
        """Store the jobs of a call; answered once they are durable."""
        size = request.ByteSize()
        submissions = [read_submission(message) for message in request.submissions]
        refusals = {s.job_id: error for s in submissions if (error := self._queues.refusal(s))}
        if refusals and request.atomic:
            raise next(iter(refusals.values()))
        accepted = [s for s in submissions if s.job_id not in refusals]
        outcomes: dict[UUID, Outcome] = dict(refusals)
        if accepted:
            outcomes.update(
                await self._store(UUID(request.operation_id), accepted, request.atomic, size)
            )
        return await self._answer(submissions, outcomes)

    async def _store(
        self, operation_id: UUID, submissions: Sequence[Submission], atomic: bool, size: int
    ) -> dict[UUID, Outcome]:
        await self._queues.use(submissions)
        for submission in submissions:
            self._queues.fill_in(submission.namespace, submission.spec)
        outcomes = await self._batcher.submit(Call(operation_id, submissions, atomic), size)
        return dict(zip((s.job_id for s in submissions), outcomes, strict=True))

    async def _flush(self, calls: list[Call]) -> Sequence[list[Outcome] | BaseException]:
        """Store all together, but for a call that is here twice, as it was sent again meanwhile."""
        results: dict[int, list[Outcome] | BaseException] = {}
        left = dict(enumerate(calls))
        with STORE.time():
            while left:
                # The first of each operation; the next round finds it stored.
                first = {call.operation_id: number for number, call in reversed(left.items())}
                numbers = sorted(first.values())
                stored = await self._store_shared([left.pop(number) for number in numbers])
                results.update(zip(numbers, stored, strict=True))
        return [results[number] for number in range(len(calls))]

    async def _store_shared(self, calls: Sequence[Call]) -> list[list[Outcome] | BaseException]:
        """Store calls in one transaction; in two halves if their data was refused."""
        if not calls:
            return []
        try:
            outcomes = await self._store_and_begin(calls)
        except Refused as refused:
            dealt = deal(calls, refused.outcomes)
            if len(calls) > 1:
                return await self._store_apart(calls, dealt)
            return [next(o for o in dealt[0] if isinstance(o, JobmeshError))]
        except asyncpg.DataError as error:
            return await self._halve(calls, error)
        STORED.inc(sum(isinstance(o, Stored) and o.row is not None for o in outcomes))
        return [*deal(calls, outcomes)]

    async def _store_and_begin(self, calls: Sequence[Call]) -> list[Outcome]:
        submissions = [submission for call in calls for submission in call.submissions]
        began = time.monotonic()
        async with self._straight.seats(submissions) as seats:
            outcomes, messages = await self._store_once(calls, seats)
            await failpoints.reach("submit.after_commit")
            self._after_commit.submitted(messages)
            if seats:
                stored = [
                    (submission, outcome.row)
                    for submission, outcome in zip(submissions, outcomes, strict=True)
                    if isinstance(outcome, Stored) and outcome.row is not None
                ]
                await self._straight.begin(stored, seats.values(), began)
        return outcomes

    async def _store_apart(
        self, calls: Sequence[Call], outcomes: Sequence[list[Outcome]]
    ) -> list[list[Outcome] | BaseException]:
        """Store together what is not refused, and each of the others by itself.

        It may have been refused for a request id of another one that was refused, too.
        """
        refused = [is_refused(call, part) for call, part in zip(calls, outcomes, strict=True)]
        good = [call for call, no in zip(calls, refused, strict=True) if not no]
        kept = iter(await self._store_shared(good))
        return [
            (await self._store_shared([call]))[0] if no else next(kept)
            for call, no in zip(calls, refused, strict=True)
        ]

    async def _store_once(
        self, calls: Sequence[Call], seats: Mapping[UUID, Seat]
    ) -> tuple[list[Outcome], list[OutboxMessage]]:
        run = self._database.run_alone if is_one_statement(calls) else self._database.run
        try:
            return await run(lambda c: store_calls(c, calls, seats))
        except asyncpg.IntegrityConstraintViolationError:
            if not seats:
                raise
            log.exception("jobs that were to begin at once are stored only")
            return await self._store_once(calls, NO_SEATS)

    async def _halve(
        self, calls: Sequence[Call], error: asyncpg.DataError
    ) -> list[list[Outcome] | BaseException]:
        if len(calls) > 1:
            middle = len(calls) // 2
            return [
                *await self._store_shared(calls[:middle]),
                *await self._store_shared(calls[middle:]),
            ]
        call = calls[0]
        if call.atomic or len(call.submissions) == 1:
            log.warning("a submission was refused by postgresql: %s", error.sqlstate)
            return [InvalidField("job", f"cannot be stored: {error}")]
        # Each half is a call by itself, the same one if all of it is sent again.
        middle = len(call.submissions) // 2
        halves = [
            Call(uuid5(call.operation_id, half), part, False)
            for half, part in (
                ("first", call.submissions[:middle]),
                ("second", call.submissions[middle:]),
            )
        ]
        first, second = [(await self._store_shared([half]))[0] for half in halves]
        return [[*_spread(halves[0], first), *_spread(halves[1], second)]]

    async def _answer(
        self, submissions: Sequence[Submission], outcomes: dict[UUID, Outcome]
    ) -> SubmitJobsResponse:
        known = await self._read_known(submissions, outcomes)
        response = SubmitJobsResponse()
        for submission in submissions:
            outcome = outcomes[submission.job_id]
            response.results.append(_result(submission, outcome, known))
        return response

    async def _read_known(
        self, submissions: Sequence[Submission], outcomes: dict[UUID, Outcome]
    ) -> dict[str, Job]:
        """Jobs that were stored by an earlier transaction, as they stand."""
        wanted: dict[str, list[str]] = {}
        for submission in submissions:
            outcome = outcomes[submission.job_id]
            if isinstance(outcome, Stored) and outcome.row is None:
                wanted.setdefault(submission.namespace, []).append(str(outcome.job_id))
        jobs: dict[str, Job] = {}
        for namespace, job_ids in wanted.items():
            async with self._database.connection() as connection:
                found = await read_jobs(connection, namespace, job_ids, JOB_VIEW_BASIC)
            jobs.update((job.job_id, job) for job in found)
        return jobs


def _spread(call: Call, result: list[Outcome] | BaseException) -> list[Outcome]:
    """One outcome for each submission of a call that may have failed as a whole."""
    if isinstance(result, JobmeshError):
        return [result] * len(call.submissions)
    if isinstance(result, BaseException):
        raise result
    return result


def _result(submission: Submission, outcome: Outcome, known: dict[str, Job]) -> SubmitJobsResult:
    if isinstance(outcome, JobmeshError):
        return SubmitJobsResult(error=to_status(outcome))
    if outcome.row is not None:
        return SubmitJobsResult(
            ok=SubmitJobResponse(job=_fresh_job(submission, outcome), created=True)
        )
    job = known.get(str(outcome.job_id))
    if job is None:  # it was deleted meanwhile
        return SubmitJobsResult(error=to_status(NotFound.job(str(outcome.job_id))))
    return SubmitJobsResult(ok=SubmitJobResponse(job=job, created=outcome.created))


def _fresh_job(submission: Submission, stored: Stored) -> Job:
    """The job as it was stored, BASIC: its first revision, though it may run by now."""
    assert stored.row is not None
    job = Job(
        job_id=str(stored.job_id),
        namespace=submission.namespace,
        spec=submission.spec,
        state=JobState.Value(f"JOB_STATE_{'SCHEDULED' if stored.row['run_at'] else 'QUEUED'}"),
        revision=1,
    )
    job.create_time.FromDatetime(stored.row["create_time"])
    if stored.row["run_at"] is not None:
        job.next_run_time.FromDatetime(stored.row["run_at"])
    return job
