"""Calls that wait together are stored together, and none of them pays for another."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from jobmesh.errors import JobmeshError, RequestIdReused
from jobmesh.ids import new_id
from jobmesh.v1.dispatch_service_pb2 import JobSubmission, SubmitJobsRequest, SubmitJobsResponse
from jobmesh.v1.job_pb2 import JobSpec, Payload
from jobmesh_dispatcher.broker import Broker
from jobmesh_dispatcher.database import Database
from jobmesh_dispatcher.intake import Intake
from jobmesh_dispatcher.nudges import Nudges
from jobmesh_dispatcher.queue_cache import QueueCache
from tests.support import decisions as d
from tests.support.dispatchers import dispatcher

CALLS = 300


@pytest.fixture
async def db(database: str) -> AsyncIterator[Database]:
    async with d.opened(database) as opened:
        await d.make_queue(opened)
        yield opened


@pytest.fixture
async def intake(db: Database) -> AsyncIterator[Intake]:
    queues = QueueCache(db, Nudges(Broker("nats://127.0.0.1:1")))
    async with dispatcher(db) as its:
        intake = Intake(db, queues, its.after_commit, its.straight)
        await queues.start()
        await intake.start()
        try:
            yield intake
        finally:
            await intake.stop()
            await queues.stop()


def call(*request_ids: str, atomic: bool = True, body: bytes = b"{}") -> SubmitJobsRequest:
    """A call of a gateway that brings a job for each request id; an empty one is none."""
    jobs = [
        JobSubmission(
            job_id=new_id(),
            namespace="default",
            job=JobSpec(
                queue="default",
                type="t",
                priority=4,
                payload=Payload(data=body, content_type="application/json"),
            ),
            request_id=request_id,
            digest=body,
        )
        for request_id in request_ids
    ]
    return SubmitJobsRequest(operation_id=new_id(), submissions=jobs, atomic=atomic)


async def count(db: Database) -> int:
    (row,) = await db.fetch("SELECT count(*) FROM jobmesh.jobs_live")
    return int(row["count"])


async def test_calls_that_are_all_or_nothing_share_a_transaction(
    db: Database, intake: Intake
) -> None:
    before = await transaction_id(db)
    answers = await asyncio.gather(*(intake.submit(call(f"r{n}", "")) for n in range(CALLS)))
    assert {len(answer.results) for answer in answers} == {2}
    assert await count(db) == 2 * CALLS
    assert await transaction_id(db) - before < CALLS / 10


async def transaction_id(db: Database) -> int:
    """How many transactions have written so far, the making of queues included."""
    (row,) = await db.fetch("SELECT pg_current_xact_id()::text::bigint AS id")
    return int(row["id"])


async def test_a_refused_call_costs_the_others_nothing(db: Database, intake: Intake) -> None:
    await intake.submit(call("taken"))
    results = await asyncio.gather(
        intake.submit(call("one")),
        intake.submit(call("two", "taken", body=b'{"other":1}')),
        intake.submit(call("taken", "three", atomic=False, body=b'{"other":1}')),
        intake.submit(call("four", "five")),
        return_exceptions=True,
    )
    first, refused, shared, last = results
    assert isinstance(refused, RequestIdReused)
    for answer in (first, last):
        assert isinstance(answer, SubmitJobsResponse)
        assert {result.WhichOneof("result") for result in answer.results} == {"ok"}
    assert isinstance(shared, SubmitJobsResponse)
    assert [result.WhichOneof("result") for result in shared.results] == ["error", "ok"]
    assert await count(db) == 5  # "taken", "one", "three", "four", "five"


async def test_a_call_that_is_sent_again_before_it_was_stored_is_one(
    db: Database, intake: Intake
) -> None:
    other, sent = call("", ""), call("", "")
    again = SubmitJobsRequest()
    again.CopyFrom(sent)
    job_ids = [submission.job_id for submission in sent.submissions]
    answers = await asyncio.gather(*map(intake.submit, (other, sent, again)))
    assert [[r.ok.job.job_id for r in answer.results] for answer in answers[1:]] == [job_ids] * 2
    assert await count(db) == 4


async def test_a_call_is_not_refused_for_one_that_is_refused_itself(
    db: Database, intake: Intake
) -> None:
    await intake.submit(call("taken"))
    # Were both judged by what the first transaction held, neither would be stored.
    both = [call("mine", "taken", body=b'{"other":1}'), call("mine", "yours", body=b'{"a":1}')]
    for first, second in (both, both[::-1]):
        results = await asyncio.gather(
            intake.submit(first), intake.submit(second), return_exceptions=True
        )
        assert sum(isinstance(result, JobmeshError) for result in results) == 1
    assert await count(db) == 3


async def test_the_same_request_of_two_calls_is_one_job(db: Database, intake: Intake) -> None:
    answers = await asyncio.gather(*(intake.submit(call("same")) for _ in range(50)))
    assert len({answer.results[0].ok.job.job_id for answer in answers}) == 1
    assert sum(answer.results[0].ok.created for answer in answers) == 1
    assert await count(db) == 1
