"""Submitting once or many times over, and finding jobs again."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Literal

import grpc
import pytest

from jobmesh.client import Client, JobHandle, Submitter
from jobmesh.errors import InvalidField, QueueFull, RequestIdReused, WrongState
from jobmesh.ids import new_id
from jobmesh.v1 import job_service_pb2 as pb
from jobmesh.v1.job_pb2 import JobFilter, JobSpec, Payload
from tests.acceptance import everyday
from tests.support.refusals import refusal, status_refusal
from tests.support.wait import until

if TYPE_CHECKING:
    from jobmesh.v1.job_service_pb2_grpc import JobServiceAsyncStub

WAIT = 30.0
TIMEOUT = 20.0


@pytest.fixture
def run() -> str:
    """A label's value that finds the jobs of one test."""
    return new_id()


async def ids(client: Client, run: str, order: Literal["newest", "oldest"] = "newest") -> list[str]:
    return [job.id async for job in client.list(labels={"run": run}, order=order)]


async def test_a_request_id_is_one_job(client: Client, run: str) -> None:
    mine = client.with_options(request_id=new_id(), labels={"run": run})
    several = await asyncio.gather(*(mine.submit(everyday.add, a=1, b=2) for _ in range(20)))
    assert len({job.id for job in several}) == 1
    assert sum(job.created for job in several) == 1
    assert await several[0].result(WAIT) == 3
    again = await mine.submit(everyday.add, b=2, a=1)
    assert (again.id, again.created) == (several[0].id, False)
    assert await ids(client, run) == [again.id]


async def test_a_request_id_with_other_content_is_refused(client: Client, run: str) -> None:
    mine = client.with_options(request_id=new_id(), labels={"run": run})
    job = await mine.submit(everyday.add, a=1)
    with pytest.raises(RequestIdReused) as caught:
        await mine.submit(everyday.add, a=2)
    assert caught.value.metadata["job_id"] == job.id
    with pytest.raises(RequestIdReused):
        await mine.with_options(priority=9).submit(everyday.add, a=1)
    assert await ids(client, run) == [job.id]


def requests(run: str, *numbers: int, request_id: str = "") -> list[pb.SubmitJobRequest]:
    return [
        pb.SubmitJobRequest(
            job=JobSpec(type="add", labels={"run": run}, payload=Payload(data=b'{"a":%d}' % n)),
            request_id=request_id,
        )
        for n in numbers
    ]


async def test_an_atomic_batch_with_one_reused_request_id_stores_nothing(
    client: Client, jobs: JobServiceAsyncStub, run: str
) -> None:
    reused = requests(run, 2, 3, request_id=new_id())
    batch = pb.BatchSubmitJobsRequest(requests=[*requests(run, 1), *reused])
    told = await refusal(jobs.BatchSubmitJobs(batch, timeout=TIMEOUT))
    assert (told.code, told.reason) == (grpc.StatusCode.ALREADY_EXISTS, "REQUEST_ID_REUSED")
    assert told.metadata["request_id"] == reused[0].request_id
    assert await ids(client, run) == []
    free = pb.SubmitJobRequest(job=reused[1].job, request_id=reused[1].request_id)
    assert (await jobs.SubmitJob(free, timeout=TIMEOUT)).created


async def test_a_batch_with_the_same_job_twice_stores_it_once(
    client: Client, jobs: JobServiceAsyncStub, run: str
) -> None:
    batch = pb.BatchSubmitJobsRequest(requests=requests(run, 1, 1, 1, request_id=new_id()))
    answer = await jobs.BatchSubmitJobs(batch, timeout=TIMEOUT)
    assert len({result.ok.job.job_id for result in answer.results}) == 1
    assert sum(result.ok.created for result in answer.results) == 1
    assert len(await ids(client, run)) == 1


async def test_a_partial_batch_stores_what_is_good(
    client: Client, jobs: JobServiceAsyncStub, run: str
) -> None:
    bad = pb.SubmitJobRequest(job=JobSpec(type="add", priority=99, labels={"run": run}))
    good = requests(run, 1, 2)
    batch = pb.BatchSubmitJobsRequest(requests=[good[0], bad, good[1]], partial=True)
    first, second, third = (await jobs.BatchSubmitJobs(batch, timeout=TIMEOUT)).results
    assert status_refusal(second.error).fields == {"requests[1].job.priority"}
    stored = [first.ok.job.job_id, third.ok.job.job_id]
    assert sorted(await ids(client, run)) == sorted(stored)
    assert [await client.job(job_id).result(WAIT) for job_id in stored] == [2, 3]


async def test_many_jobs_at_once(client: Client, run: str) -> None:
    mine = client.with_options(labels={"run": run})
    many = await mine.submit_many((everyday.add, {"a": n}) for n in range(300))
    results = await asyncio.gather(*(job.result(WAIT) for job in many))
    assert results == list(range(1, 301))
    mixed = [mine.prepare(everyday.add, a=1), mine.with_options(queue="a b").prepare("add", a=2)]
    good, bad = await mine.submit_many(mixed, partial=True)
    assert isinstance(good, JobHandle)
    assert isinstance(bad, InvalidField)
    assert "job.queue" in bad.field
    with pytest.raises(InvalidField):
        await mine.submit_many(mixed)


async def test_validate_only_stores_nothing(
    client: Client, jobs: JobServiceAsyncStub, run: str
) -> None:
    (request,) = requests(run, 1)
    request.validate_only = True
    answer = await jobs.SubmitJob(request, timeout=TIMEOUT)
    assert (answer.created, answer.job.job_id, answer.job.spec.priority) == (False, "", 4)
    assert await ids(client, run) == []


async def test_a_queue_that_takes_no_jobs(client: Client, run: str) -> None:
    mine = client.with_options(queue="closed", labels={"run": run})
    await client.queues.update("closed", intake_paused=True)
    await until(lambda: is_refused(mine, WrongState), WAIT)
    await client.queues.update("closed", intake_paused=False, dispatch_paused=True, max_depth=2)
    await until(lambda: is_refused(mine, QueueFull), WAIT)
    assert (await client.queues.get("closed")).depth["queued"] >= 2
    await client.queues.update("closed", max_depth=0, dispatch_paused=False)


async def is_refused(mine: Submitter, kind: type[Exception]) -> bool:
    """Whether a submission is refused as that; a dispatcher may go by old settings for a second."""
    try:
        await mine.submit(everyday.add, a=1)
    except (WrongState, QueueFull) as refused:
        return isinstance(refused, kind)
    return False


async def test_jobs_are_found_by_what_is_known_of_them(client: Client, run: str) -> None:
    began = datetime.now(UTC)
    mine = client.with_options(labels={"run": run})
    good = await mine.with_options(labels={"colour": "é"}, queue="found").submit("add", a=1)
    dead = await mine.submit("permanent", month="13")
    later = await mine.with_options(delay="1h", parent_job_id=good.id).submit("add", a=2)
    for job in (good, dead):
        await job.wait(WAIT)
    labels = {"run": run}

    async def found(**criteria: Any) -> set[str]:
        chosen: dict[str, Any] = {"labels": labels} | criteria
        return {job.id async for job in client.list(**chosen)}

    assert await found() == {good.id, dead.id, later.id}
    assert await found(labels=labels | {"colour": "é"}) == {good.id}
    assert await found(labels=labels | {"colour": "e"}) == set()
    assert await found(queue="found") == {good.id}
    assert await found(queue=["found", "default"]) == {good.id, dead.id, later.id}
    assert await found(type="permanent") == {dead.id}
    assert await found(state="DEAD") == {dead.id}
    assert await found(state=["SCHEDULED", "SUCCEEDED"]) == {good.id, later.id}
    assert await found(error_type="PermanentError") == {dead.id}
    assert await found(parent_job_id=good.id) == {later.id}
    assert await found(runner_id=(await good.get()).runner_id) >= {good.id}
    assert await found(created_from=began) == {good.id, dead.id, later.id}
    assert await found(created_to=began) == set()
    assert await found(ended_from=began) == {good.id, dead.id}
    await later.cancel()


async def test_pages_hold_every_job_once_in_order(
    client: Client, jobs: JobServiceAsyncStub, run: str
) -> None:
    """Also of jobs that end, and so move, from one page to the next."""
    mine = client.with_options(labels={"run": run})
    made = [(await mine.submit(everyday.brief, seconds=n / 20)).id for n in range(13)]
    for order, expected in (
        (pb.JobOrder.JOB_ORDER_NEWEST_FIRST, made[::-1]),
        (pb.JobOrder.JOB_ORDER_OLDEST_FIRST, made),
    ):
        request = pb.ListJobsRequest(
            filter=JobFilter(labels={"run": run}), page_size=3, order=order
        )
        pages: list[list[str]] = []
        while not pages or request.page_token:
            page = await jobs.ListJobs(request, timeout=TIMEOUT)
            pages.append([job.job_id for job in page.jobs])
            request.page_token = page.next_page_token
        assert [len(page) for page in pages] == [3, 3, 3, 3, 1]
        assert [job_id for page in pages for job_id in page] == expected
    assert await ids(client, run) == made[::-1]
    assert await ids(client, run, "oldest") == made


async def test_a_token_is_good_for_its_own_list_only(jobs: JobServiceAsyncStub, run: str) -> None:
    batch = pb.BatchSubmitJobsRequest(requests=requests(run, 1, 2))
    await jobs.BatchSubmitJobs(batch, timeout=TIMEOUT)
    request = pb.ListJobsRequest(filter=JobFilter(labels={"run": run}), page_size=1)
    request.page_token = (await jobs.ListJobs(request, timeout=TIMEOUT)).next_page_token
    assert request.page_token
    request.filter.types.append("add")
    told = await refusal(jobs.ListJobs(request, timeout=TIMEOUT))
    assert (told.reason, told.fields) == ("INVALID_FIELD", {"page_token"})


async def test_a_list_is_short_and_a_job_is_whole(client: Client, run: str) -> None:
    job = await client.with_options(labels={"run": run}).submit(everyday.add, a=1)
    await job.result(WAIT)
    (short,) = [found async for found in client.list(labels={"run": run})]
    assert (short.state, short.result, short.history) == ("SUCCEEDED", None, ())
    (whole,) = [found async for found in client.list(labels={"run": run}, full=True)]
    assert (whole.payload, whole.result, len(whole.history)) == ({"a": 1}, 2, 3)
