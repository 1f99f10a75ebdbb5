"""What a client that is closed does to the calls of other tasks."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest

import jobmesh
from jobmesh import JobmeshError
from tests.integration.client.conftest import Gateway
from tests.support.wait import until

Call = Callable[[jobmesh.Client, jobmesh.JobHandle], Awaitable[Any]]


async def to_the_end(items: AsyncIterator[Any]) -> None:
    async for _ in items:
        pass


CALLS: dict[str, Call] = {
    "WaitJob": lambda _, job: job.wait(),
    "WatchJob": lambda _, job: to_the_end(job.watch()),
    "ReadLog": lambda _, job: to_the_end(job.logs(follow=True)),
    "GetJob": lambda _, job: job.get(),
    "BatchSubmitJobs": lambda mesh, _: mesh.submit_many([("t", {})] * 2),
}


async def begin(gateway: Gateway, mesh: jobmesh.Client, method: str) -> asyncio.Task[Any]:
    """A task whose call is at the gateway, and is not answered."""
    job = await mesh.submit("t")
    gateway.jobs.hold.clear()
    task = asyncio.ensure_future(CALLS[method](mesh, job))
    await until(lambda: gateway.jobs.calls[method])
    assert isinstance(task, asyncio.Task)
    return task


@pytest.mark.parametrize("method", CALLS)
async def test_a_call_of_another_task_is_told_that_the_client_was_closed(
    gateway: Gateway, mesh: jobmesh.Client, method: str
) -> None:
    task = await begin(gateway, mesh, method)
    await mesh.close()
    with pytest.raises(JobmeshError, match="client was closed") as caught:
        await task
    assert caught.value.reason == "CLIENT_CLOSED"
    gateway.jobs.hold.set()


@pytest.mark.parametrize("method", CALLS)
async def test_a_cancellation_stays_one_though_the_client_is_closed_as_well(
    gateway: Gateway, mesh: jobmesh.Client, method: str
) -> None:
    task = await begin(gateway, mesh, method)
    task.cancel()
    await mesh.close()
    with pytest.raises(asyncio.CancelledError):
        await task
    gateway.jobs.hold.set()


@pytest.mark.parametrize("method", CALLS)
async def test_a_call_that_is_about_to_be_repeated_is_told_as_well(
    gateway: Gateway, mesh: jobmesh.Client, method: str
) -> None:
    task = await begin(gateway, mesh, method)
    gateway.proxy.cut()
    accepted = gateway.proxy.accepted
    await until(lambda: gateway.proxy.accepted > accepted)
    await mesh.close()
    with pytest.raises(JobmeshError, match="client was closed"):
        await task
    gateway.jobs.hold.set()


async def test_a_call_after_the_end_is_told_too(gateway: Gateway, mesh: jobmesh.Client) -> None:
    job = await mesh.submit("t")
    await mesh.close()
    await mesh.close()
    with pytest.raises(JobmeshError, match="client was closed"):
        await job.get()


async def test_a_client_that_is_entered_again_is_open(gateway: Gateway) -> None:
    mesh = jobmesh.connect(gateway.address)
    for _ in range(2):
        async with mesh:
            await mesh.submit("t")
