from __future__ import annotations

from datetime import timedelta

import pytest

import jobmesh
from jobmesh import Retry
from jobmesh.errors import NotFound, Unavailable, WrongState
from jobmesh.states import State
from jobmesh.v1 import job_pb2
from tests.integration.client.conftest import Gateway, serve


async def test_a_retry_is_bound_to_what_was_seen_and_so_happens_once(
    gateway: Gateway, mesh: jobmesh.Client
) -> None:
    job = await mesh.submit("t")
    await gateway.jobs.move(job.id, job_pb2.JOB_STATE_DEAD)
    gateway.jobs.lose = [Unavailable("the answer was lost")]
    info = await job.retry()
    assert info.state is State.QUEUED
    assert info.revision == 3


async def test_a_job_that_is_not_over_cannot_be_retried(mesh: jobmesh.Client) -> None:
    job = await mesh.submit("t")
    with pytest.raises(WrongState) as caught:
        await job.retry()
    assert caught.value.state == "QUEUED"


async def test_jobs_are_listed_over_all_pages(mesh: jobmesh.Client) -> None:
    made = await mesh.submit_many(("t", {}) for _ in range(1500))
    await mesh.submit("other")
    newest_first = [job.id for job in reversed(made)]
    assert [job.id async for job in mesh.list(type="t")] == newest_first
    assert [job.id async for job in mesh.list(type="t", limit=3)] == newest_first[:3]
    assert [job.id async for job in mesh.list(type="t", limit=12, full=True)] == newest_first[:12]


async def test_a_malformed_filter_is_refused_at_once(mesh: jobmesh.Client) -> None:
    with pytest.raises(ValueError, match="no such state"):
        mesh.list(state="SLEEPING")
    with pytest.raises(TypeError, match="colour"):
        mesh.list(colour="red")
    with pytest.raises(ValueError, match="newest, oldest"):
        async for _ in mesh.list(order="best"):  # type: ignore[arg-type]
            pass


async def test_attempts_are_listed(gateway: Gateway, mesh: jobmesh.Client) -> None:
    job = await mesh.submit("t")
    await gateway.jobs.finish(job.id)
    assert [attempt.attempt for attempt in await job.attempts()] == [1]


async def test_queues_are_changed_field_by_field(gateway: Gateway, mesh: jobmesh.Client) -> None:
    made = await mesh.queues.update("q", max_running=3, default_timeout="90s")
    assert (made.max_running, made.default_timeout) == (3, timedelta(seconds=90))
    changed = await mesh.queues.update("q", max_depth=7, default_retry=Retry(max_attempts=2))
    assert (changed.max_running, changed.max_depth) == (3, 7)
    assert changed.proto.default_retry_policy.max_attempts == 2
    assert (await mesh.queues.update("q", default_timeout=None)).default_timeout is None
    assert gateway.queues.masks == [
        ["max_running", "default_timeout"],
        ["max_depth", "default_retry_policy"],
        ["default_timeout"],
    ]
    with pytest.raises(TypeError, match="no setting 'colour'"):
        await mesh.queues.update("q", colour="red")


async def test_queues_are_paused_resumed_and_listed(mesh: jobmesh.Client) -> None:
    for name in "abcde":
        await mesh.queues.update(name, max_running=1)
    assert (await mesh.queues.pause("c", "deploy")).pause_note == "deploy"
    assert [q.name async for q in mesh.queues.list() if q.dispatch_paused] == ["c"]
    assert not (await mesh.queues.resume("c")).dispatch_paused
    assert (await mesh.queues.get("c")).depth["queued"] == 0
    with pytest.raises(NotFound, match="no such queue"):
        await mesh.queues.get("absent")


async def test_several_gateways_share_the_calls_and_one_that_goes_is_not_missed(
    gateway: Gateway,
) -> None:
    other = serve(gateway.jobs, gateway.queues)
    await other.start()
    both = f"{gateway.address}, 127.0.0.1:{other.port}"
    async with jobmesh.connect(both, timeout=10) as mesh:
        for _ in range(10):
            await mesh.submit("t")
        assert gateway.proxy.accepted == 1
        gateway.proxy.cut()
        for _ in range(10):
            await mesh.submit("t")
        await other.stop()
        gateway.proxy.restore()
        await mesh.submit("t")
    assert len(gateway.jobs.jobs) == 21


async def test_names_of_hosts_are_resolved(gateway: Gateway) -> None:
    async with jobmesh.connect(f"localhost:{gateway.proxy.port}") as mesh:
        assert (await mesh.submit("t")).created
    async with jobmesh.connect("no-such-host.invalid:1", patience=0, timeout=5) as mesh:
        with pytest.raises(Unavailable, match=r"no-such-host.invalid"):
            await mesh.submit("t")
