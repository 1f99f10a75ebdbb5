from __future__ import annotations

import asyncio

import pytest

import jobmesh
from jobmesh.client.grouping import GROUP_JOBS
from jobmesh.errors import (
    BackendUnavailable,
    DeadlineExceeded,
    InvalidField,
    QueueFull,
    Unavailable,
)
from tests.integration.client.conftest import Gateway
from tests.support.wait import until


async def test_a_submission_stores_the_job_with_its_arguments(
    gateway: Gateway, mesh: jobmesh.Client
) -> None:
    job = await mesh.with_options(queue="q", priority=9).submit("t", month="2026-10", priority=1)
    assert job.created
    info = await job.get()
    assert (info.type, info.queue, info.priority) == ("t", "q", 9)
    assert info.payload == {"month": "2026-10", "priority": 1}


async def test_concurrent_submissions_travel_together_and_each_gets_its_own_answer(
    gateway: Gateway, mesh: jobmesh.Client
) -> None:
    gateway.jobs.refuse["bad"] = InvalidField("job.type", "is not known")
    kinds = ["bad" if number % 10 == 3 else "t" for number in range(500)]
    answers = await asyncio.gather(
        *(mesh.submit(kind, number=n) for n, kind in enumerate(kinds)), return_exceptions=True
    )
    for number, (kind, answer) in enumerate(zip(kinds, answers, strict=True)):
        if kind == "bad":
            assert isinstance(answer, InvalidField)
            assert answer.field == "job.type"
        else:
            assert isinstance(answer, jobmesh.JobHandle)
            job = gateway.jobs.jobs[answer.id]
            assert job.spec.payload.data == b'{"number":%d}' % number
    assert sum(gateway.jobs.submit_calls) == 500
    assert len(gateway.jobs.submit_calls) < 10


async def test_a_submission_that_finds_the_client_idle_leaves_alone(
    gateway: Gateway, mesh: jobmesh.Client
) -> None:
    for _ in range(3):
        await mesh.submit("t")
    assert gateway.jobs.submit_calls == [1, 1, 1]


async def test_more_submissions_than_may_wait_are_all_stored(
    gateway: Gateway, mesh: jobmesh.Client
) -> None:
    jobs = await asyncio.gather(*(mesh.submit("t", n=n) for n in range(11_000)))
    assert len({job.id for job in jobs}) == 11_000
    assert max(gateway.jobs.submit_calls) <= GROUP_JOBS


async def test_a_submission_whose_answer_was_lost_is_sent_again_and_is_one_job(
    gateway: Gateway, mesh: jobmesh.Client
) -> None:
    gateway.jobs.hold.clear()
    submitting = asyncio.create_task(mesh.submit("t"))
    await until(lambda: gateway.jobs.submit_calls, describe="the call arrived")
    gateway.proxy.cut()
    gateway.jobs.hold.set()  # stored; the answer finds no way back
    await until(lambda: gateway.jobs.jobs, describe="the job is stored")
    gateway.proxy.restore()
    job = await submitting
    assert list(gateway.jobs.jobs) == [job.id]
    assert len(gateway.jobs.submit_calls) > 1


async def test_a_submission_waits_out_a_mesh_that_cannot_store(
    gateway: Gateway, mesh: jobmesh.Client
) -> None:
    gateway.jobs.fail = [BackendUnavailable("dispatcher", retry_after=0.05) for _ in range(7)]
    job = await mesh.submit("t")
    assert list(gateway.jobs.jobs) == [job.id]


async def test_jobs_of_a_batch_that_could_not_be_stored_now_are_sent_again(
    gateway: Gateway, mesh: jobmesh.Client
) -> None:
    gateway.jobs.refuse["later"] = BackendUnavailable("dispatcher", retry_after=0.05)
    submitting = asyncio.create_task(
        mesh.submit_many([("t", {}), ("later", {}), ("t", {})], partial=True)
    )
    await until(lambda: len(gateway.jobs.submit_calls) >= 2, describe="a second call")
    del gateway.jobs.refuse["later"]
    jobs = await submitting
    assert all(isinstance(job, jobmesh.JobHandle) for job in jobs)
    assert gateway.jobs.submit_calls[1:] == [1] * (len(gateway.jobs.submit_calls) - 1)
    assert len(gateway.jobs.jobs) == 3


async def test_a_full_queue_is_told_at_once(gateway: Gateway, mesh: jobmesh.Client) -> None:
    gateway.jobs.fail = [QueueFull("q", 10)]
    with pytest.raises(QueueFull, match="is full") as caught:
        await mesh.submit("t")
    assert caught.value.retry_after == 1.0


async def test_the_same_request_id_is_the_same_job(mesh: jobmesh.Client) -> None:
    first = await mesh.with_options(request_id="r1").submit("t")
    second = await mesh.with_options(request_id="r1").submit("t")
    assert first.id == second.id
    assert (first.created, second.created) == (True, False)


async def test_many_jobs_are_cut_into_calls_that_fit(
    gateway: Gateway, mesh: jobmesh.Client
) -> None:
    jobs = await mesh.submit_many(("t", {"n": n}) for n in range(10_001))
    assert gateway.jobs.submit_calls == [10_000, 1]
    assert [job.id for job in jobs] == list(gateway.jobs.jobs)
    gateway.jobs.submit_calls.clear()
    megabyte = "x" * 1_000_000
    await mesh.submit_many([("t", {"text": megabyte})] * 9)
    assert gateway.jobs.submit_calls == [8, 1]


async def test_the_bytes_around_each_of_many_jobs_count_as_well(
    gateway: Gateway, mesh: jobmesh.Client
) -> None:
    text = "x" * 2000
    jobs = await mesh.submit_many(("t", {"text": text}) for _ in range(5000))
    assert len({job.id for job in jobs}) == 5000
    assert len(gateway.jobs.submit_calls) == 2


async def test_prepared_submissions_sent_twice_are_the_same_jobs(mesh: jobmesh.Client) -> None:
    prepared = [mesh.prepare("t", n=n) for n in range(3)]
    first = await mesh.submit_many(prepared)
    second = await mesh.submit_many(prepared)
    assert [job.id for job in first] == [job.id for job in second]
    assert not any(job.created for job in second)


async def test_one_request_id_cannot_be_that_of_many_jobs(mesh: jobmesh.Client) -> None:
    with pytest.raises(ValueError, match="use prepare"):
        await mesh.with_options(request_id="r").submit_many([("t", {}), ("t", {})])


async def test_a_refused_batch_raises_its_error(gateway: Gateway, mesh: jobmesh.Client) -> None:
    gateway.jobs.refuse["bad"] = InvalidField("job.type", "is not known")
    with pytest.raises(InvalidField):
        await mesh.submit_many([("t", {}), ("bad", {})])
    one, other = await mesh.submit_many([("t", {}), ("bad", {})], partial=True)
    assert isinstance(one, jobmesh.JobHandle)
    assert isinstance(other, InvalidField)


async def test_a_mesh_that_is_not_there_is_an_error_that_names_the_address() -> None:
    async with jobmesh.connect("127.0.0.1:1", patience=0.3) as mesh:
        with pytest.raises(Unavailable, match=r"the mesh at 127.0.0.1:1: Connection refused"):
            await mesh.submit("t")


async def test_a_mesh_that_does_not_answer_is_an_error_at_the_deadline(gateway: Gateway) -> None:
    gateway.jobs.hold.clear()
    async with jobmesh.connect(gateway.address, timeout=0.3) as mesh:
        with pytest.raises(DeadlineExceeded, match="in time"):
            await mesh.submit("t")
    gateway.jobs.hold.set()


async def test_a_client_that_was_not_entered_says_so() -> None:
    with pytest.raises(RuntimeError, match="async with"):
        await jobmesh.connect("127.0.0.1:1").job("j").get()


async def test_a_malformed_address_is_refused_on_entering() -> None:
    with pytest.raises(ValueError, match="not an address"):
        await jobmesh.connect("nonsense").__aenter__()
