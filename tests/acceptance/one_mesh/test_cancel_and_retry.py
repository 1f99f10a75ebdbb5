"""What a person does to a job: cancel it, and run it again."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import grpc
import pytest

from jobmesh import Retry
from jobmesh.client import Client, JobHandle, JobWasCancelled
from jobmesh.errors import WrongState
from jobmesh.v1.job_pb2 import JobState, Payload
from jobmesh.v1.job_service_pb2 import CancelJobRequest, RetryJobRequest
from tests.acceptance import everyday
from tests.support.refusals import refusal
from tests.support.wait import until

if TYPE_CHECKING:
    from jobmesh.v1.job_service_pb2_grpc import JobServiceAsyncStub

WAIT = 30.0


async def running(job: JobHandle) -> JobHandle:
    """The job, once its handler has said something."""

    async def has_progress() -> bool:
        return (await job.get()).progress is not None

    await until(has_progress, WAIT)
    return job


async def test_a_job_that_waits_is_cancelled_at_once(client: Client) -> None:
    await client.queues.update("stopped", dispatch_paused=True)
    queued = await client.with_options(queue="stopped").submit(everyday.add, a=1)
    scheduled = await client.with_options(delay="1h").submit(everyday.add, a=1)
    for job in (queued, scheduled):
        info = await job.cancel("not needed any more")
        assert (info.state, info.reason, info.attempt) == ("CANCELLED", "CANCELLED", 0)
        assert info.cancel_reason == "not needed any more"
        with pytest.raises(JobWasCancelled, match="not needed any more"):
            await job.result(WAIT)
    assert (await client.queues.get("stopped")).depth["queued"] == 0
    await client.queues.resume("stopped")


async def test_a_running_handler_is_told_and_cleans_up(client: Client) -> None:
    job = await running(await client.submit(everyday.tidy))
    first = await job.cancel("stop it")
    assert first.state in ("CANCELLING", "CANCELLED")
    info = await job.wait(WAIT)
    assert (info.state, info.reason, info.attempt) == ("CANCELLED", "CANCELLED", 1)
    assert info.checkpoint == {"tidied": True}
    (said,) = [line.message async for line in job.logs()]
    assert said.startswith("tidied up: ")
    assert said.endswith("stop it")
    assert [change.state for change in info.history] == [
        *("QUEUED", "RUNNING", "CANCELLING", "CANCELLED")
    ]
    (attempt,) = await job.attempts()
    assert attempt.outcome == "CANCELLED"


async def test_a_handler_in_a_thread_is_told(client: Client) -> None:
    job = await running(await client.submit(everyday.thread_hold))
    await job.cancel()
    assert (await job.wait(WAIT)).state == "CANCELLED"


async def test_cancelling_twice_is_no_error(client: Client) -> None:
    job = await running(await client.submit(everyday.tidy))
    await asyncio.gather(*(job.cancel(f"call {n}") for n in range(5)))
    info = await job.wait(WAIT)
    assert info.state == "CANCELLED"
    again = await job.cancel("once more")
    assert (again.state, again.revision) == ("CANCELLED", info.revision)


async def test_what_has_ended_cannot_be_cancelled(client: Client) -> None:
    job = await client.submit(everyday.add, a=1)
    await job.result(WAIT)
    with pytest.raises(WrongState) as caught:
        await job.cancel()
    assert caught.value.state == "SUCCEEDED"


async def test_a_cancel_or_retry_of_another_revision(
    client: Client, jobs: JobServiceAsyncStub
) -> None:
    job = await client.submit(everyday.add, a=1)
    await job.result(WAIT)
    cancel = CancelJobRequest(job_id=job.id, expected_revision=1)
    retry = RetryJobRequest(job_id=job.id, expected_revision=2)
    for told in (
        await refusal(jobs.CancelJob(cancel, timeout=WAIT)),
        await refusal(jobs.RetryJob(retry, timeout=WAIT)),
    ):
        assert (told.code, told.reason) == (grpc.StatusCode.ABORTED, "REVISION_MISMATCH")
        assert told.metadata["actual"] == "3"


async def test_a_dead_job_is_retried_with_another_payload(
    client: Client, jobs: JobServiceAsyncStub
) -> None:
    options = client.with_options(retry=Retry(max_attempts=1), labels={"kept": "yes"})
    job = await options.submit(everyday.pick, names=["a"], index=5)
    dead = await job.wait(WAIT)
    assert (dead.state, dead.failures) == ("DEAD", 1)
    assert str(dead.error) == "IndexError: list index out of range"
    payload = Payload(data=b'{"names": ["a", "b"], "index": 1}')
    request = RetryJobRequest(job_id=job.id, payload=payload)
    retried = await jobs.RetryJob(request, timeout=WAIT)
    assert (retried.failures, retried.history[3].state) == (0, JobState.JOB_STATE_QUEUED)
    assert await job.result(WAIT) == "b"
    info = await job.get()
    assert (info.attempt, info.failures, info.error) == (2, 0, None)
    assert (info.payload, info.labels) == ({"names": ["a", "b"], "index": 1}, {"kept": "yes"})
    states = [change.state for change in info.history]
    assert states == [*("QUEUED", "RUNNING", "DEAD", "QUEUED", "RUNNING", "SUCCEEDED")]
    assert [attempt.outcome for attempt in await job.attempts()] == ["FAILED", "SUCCEEDED"]


async def test_what_has_succeeded_or_was_cancelled_is_retried(client: Client) -> None:
    done = await client.submit(everyday.add, a=1)
    await done.result(WAIT)
    cancelled = await client.with_options(delay="1h").submit(everyday.add, a=2)
    await cancelled.cancel()
    for job, attempt in ((done, 2), (cancelled, 1)):
        retried = await job.retry()
        assert "RETRIED" in [change.reason for change in retried.history]
        info = await job.wait(WAIT)
        assert (info.state, info.attempt, info.cancel_reason) == ("SUCCEEDED", attempt, "")


async def test_what_still_runs_cannot_be_retried(client: Client) -> None:
    job = await running(await client.submit(everyday.tidy))
    with pytest.raises(WrongState) as caught:
        await job.retry()
    assert caught.value.state == "RUNNING"
    await job.cancel()
    await job.wait(WAIT)
