"""Handlers that do what they should not; their neighbours notice nothing."""

from __future__ import annotations

import asyncio
from functools import partial

import pytest

from jobmesh.client import Client
from jobmesh.states import State
from tests.acceptance import everyday
from tests.support.wait import until

WAIT = 30.0
# The lease of a runner is 10 s: a runner that is silent for so long loses its jobs.
LONGER_THAN_THE_LEASE = 12.0
TRACEBACK_LIMIT = 64 << 10


async def test_a_result_that_cannot_be_serialized(client: Client) -> None:
    job = await client.submit(everyday.unserializable)
    info = await job.wait(WAIT)
    # Another attempt would end the same way.
    assert (info.state, info.reason, info.attempt) == ("DEAD", "NON_RETRYABLE", 1)
    assert info.error is not None
    assert info.error.type == "NotSerializable"
    assert "lock" in info.error.message


async def test_a_result_over_the_limit(client: Client) -> None:
    job = await client.submit(everyday.too_long, characters=(1 << 20) + 1)
    info = await job.wait(WAIT)
    assert (info.state, info.reason, info.attempt) == ("DEAD", "NON_RETRYABLE", 1)
    assert info.error is not None
    assert info.error.type == "PayloadTooLarge"
    fits = await client.submit(everyday.too_long, characters=(1 << 20) - 2)
    assert len(await fits.result(WAIT)) == (1 << 20) - 2


async def test_a_traceback_of_5_mb_with_odd_characters(client: Client) -> None:
    job = await client.submit(everyday.loud, megabytes=5)
    neighbour = await client.submit(everyday.add, a=1)
    info = await job.wait(WAIT)
    assert (info.state, info.reason) == ("DEAD", "FAILED")
    assert info.error is not None
    assert info.error.type == "ValueError"
    assert info.error.message.startswith("é")
    assert len(info.error.message) <= 4000
    assert "everyday.py" in info.error.traceback
    assert 1000 < len(info.error.traceback.encode()) <= TRACEBACK_LIMIT
    assert "\0" not in info.error.message + info.error.traceback
    assert await neighbour.result(WAIT) == 2


async def test_a_handler_that_swallows_its_cancellation_and_returns(client: Client) -> None:
    job = await client.submit(everyday.finish_anyway)
    await until(lambda: has_progress(client, job.id), WAIT)
    await job.cancel()
    assert await job.result(WAIT) == "finished all the same"
    states = [change.state for change in (await job.get()).history]
    assert states == ["QUEUED", "RUNNING", "CANCELLING", "SUCCEEDED"]


async def test_a_handler_that_will_not_stop_is_left_behind(client: Client) -> None:
    job = await client.submit(everyday.deaf)
    await until(lambda: has_progress(client, job.id), WAIT)
    await job.cancel()
    info = await job.wait(5)
    assert (info.state, info.attempt) == ("CANCELLED", 1)


async def has_progress(client: Client, job_id: str) -> bool:
    info = await client.job(job_id).get()
    return info.state is State.RUNNING and info.progress is not None


@pytest.mark.timeout(120)
async def test_a_handler_that_blocks_the_loop_past_the_lease_loses_nothing(client: Client) -> None:
    """Nor do those that run beside it, on its runner or on the other.

    Both runners have left handlers behind before, which have nothing to do with it.
    """
    await leave_handlers_behind(client)
    beside = [await client.submit(everyday.thread_hold) for _ in range(4)]
    for job in beside:
        await until(partial(has_progress, client, job.id), WAIT)
    blocking = await client.submit(everyday.block, seconds=LONGER_THAN_THE_LEASE)
    await until(lambda: has_begun(client, blocking.id), WAIT)
    blocked = (await blocking.get()).runner_id
    others = [await client.submit(everyday.add, a=n) for n in range(20)]
    ends = await asyncio.gather(*(job.wait(WAIT) for job in others))
    assert {(end.state, end.failures, end.crashes) for end in ends} == {("SUCCEEDED", 0, 0)}
    assert (await blocking.get()).state == "RUNNING", "the others should not wait for it"
    assert await blocking.result(WAIT) == "blocked"
    info = await blocking.get()
    assert (info.attempt, info.crashes, info.runner_id) == (1, 0, blocked)
    for job in beside:
        assert (await job.get()).state == "RUNNING"
        await job.cancel()
        end = await job.wait(WAIT)
        assert (end.state, end.attempt, end.crashes) == ("CANCELLED", 1, 0)


async def leave_handlers_behind(client: Client) -> None:
    """On both runners."""
    jobs = [await client.submit(everyday.deaf) for _ in range(8)]
    for job in jobs:
        await until(partial(has_progress, client, job.id), WAIT)
        await job.cancel()
    ends = await asyncio.gather(*(job.wait(WAIT) for job in jobs))
    assert {(end.state, end.runner_id) for end in ends} == {
        ("CANCELLED", "runner-1"),
        ("CANCELLED", "runner-2"),
    }


async def has_begun(client: Client, job_id: str) -> bool:
    return (await client.job(job_id).get()).start_time is not None
