"""What a dispatcher's crash leaves behind heals: one test a row of its table."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
import pytest_asyncio
from asyncpg import Record

from jobmesh.channels import open_channel
from jobmesh.client import JobHandle
from jobmesh.dev.ports import PortPool
from jobmesh.ids import new_id
from jobmesh.v1.runner_service_pb2 import (
    REPORT_STATUS_RECORDED,
    Assignment,
    Hello,
    Lease,
    Report,
    Reports,
    WorkRequest,
    WorkResponse,
)
from jobmesh.v1.runner_service_pb2_grpc import RunnerServiceStub
from jobmesh_dispatcher.claims import HELD_AT_ONCE
from tests.acceptance.handlers import note
from tests.support.fleet import Fleet, new_fleet, plain_nats
from tests.support.servers import TestPostgres
from tests.support.wait import until

pytestmark = pytest.mark.asyncio(loop_scope="module")

DISPATCHER = "dispatcher-1"
SETTINGS = {
    "JOBMESH_APP": "tests.acceptance.handlers:app",
    "JOBMESH_ACK_WAIT_SECONDS": "1",
    "JOBMESH_MAX_DELIVER": "100",
}
ROUNDS = 10
BY_WAKEUP = "claim.straight=error"  # nothing begins as it is stored
JOBS_BY_LABEL = "SELECT * FROM jobmesh.jobs WHERE labels ->> 'test' = $1"


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def shared(
    tmp_path_factory: pytest.TempPathFactory, ports: PortPool, postgres: TestPostgres
) -> AsyncIterator[Fleet]:
    directory = tmp_path_factory.mktemp("fleet")
    async with new_fleet(postgres, ports, directory, {}, SETTINGS, Fleet) as fleet, fleet:
        yield fleet


@pytest_asyncio.fixture(loop_scope="module")
async def fleet(shared: Fleet) -> AsyncIterator[Fleet]:
    """With a dispatcher, and nothing left over, whatever the test before has done to it."""
    if not shared[DISPATCHER].running:
        await heal(shared)
    await until(lambda: no_outbox(shared), 20, shared.trouble, interval=0.1)
    await until(lambda: no_wakeups(shared), 20, shared.trouble, interval=0.1)
    yield shared


async def arm(fleet: Fleet, failpoint: str) -> None:
    """From now on the dispatcher does at that point what was asked for."""
    await fleet.restart(DISPATCHER, JOBMESH_FAILPOINTS=failpoint)


async def heal(fleet: Fleet) -> None:
    """The dispatcher is killed if it was not, and started as it should be."""
    await fleet.restart(DISPATCHER, JOBMESH_FAILPOINTS="")


async def has_a_runner(fleet: Fleet) -> bool:
    """Whether one is attached, so that there is room."""
    return await fleet[DISPATCHER].metric("jobmesh_runners_attached") == 1


async def the_job(fleet: Fleet, label: str) -> Record:
    """The one job with that label."""
    rows = await fleet.fetch(JOBS_BY_LABEL, label)
    assert len(rows) == 1, rows
    return rows[0]


async def ended(fleet: Fleet, label: str) -> Record:
    """The job, once it has succeeded."""

    async def succeeded() -> Record:
        row = await the_job(fleet, label)
        assert row["state"] == "SUCCEEDED", dict(row)
        return row

    return await until(succeeded, 20, fleet.trouble, interval=0.05)


def outcomes(row: Record) -> list[str]:
    return [attempt["outcome"] for attempt in row["attempts"]]


async def wakeups(fleet: Fleet) -> int:
    """Messages in the stream, of all queues."""
    async with plain_nats(fleet.nats.url) as nats:
        info = await nats.jetstream().stream_info("JOBMESH_JOBS")
        return info.state.messages


async def test_before_the_commit_of_a_submit_there_is_nothing_and_the_retry_stores_it(
    fleet: Fleet,
) -> None:
    label = new_id()
    await arm(fleet, "submit.before_commit=kill")
    async with fleet.client() as mesh:
        submitting = asyncio.create_task(mesh.with_options(labels={"test": label}).submit(note))
        await fleet[DISPATCHER].dead()
        assert await fleet.fetch(JOBS_BY_LABEL, label) == []
        assert await fleet.value("SELECT count(*) FROM jobmesh.outbox") == 0
        await heal(fleet)
        job = await asyncio.wait_for(submitting, 20)
        row = await ended(fleet, label)
    assert str(row["job_id"]) == job.id


async def test_between_commit_and_publish_the_outbox_has_it_and_the_leader_publishes(
    fleet: Fleet,
) -> None:
    label = new_id()
    await arm(fleet, f"{BY_WAKEUP},submit.after_commit=kill")
    async with fleet.client() as mesh:
        submitting = asyncio.create_task(mesh.with_options(labels={"test": label}).submit(note))
        await fleet[DISPATCHER].dead()
        assert (await the_job(fleet, label))["state"] == "QUEUED"
        assert await fleet.value("SELECT count(*) FROM jobmesh.outbox") == 1
        assert await wakeups(fleet) == 0
        await heal(fleet)
        job = await asyncio.wait_for(submitting, 20)
    row = await ended(fleet, label)
    assert str(row["job_id"]) == job.id  # the repeated call found its own
    assert outcomes(row) == ["SUCCEEDED"]
    await until(lambda: no_outbox(fleet), 10)


async def test_between_the_commit_of_a_job_that_begins_at_once_and_its_sending(
    fleet: Fleet,
) -> None:
    for _ in range(ROUNDS):
        if await dies_with_a_job_that_has_begun(fleet):
            return
    pytest.fail(f"no job has begun as it was stored, {ROUNDS} times over")


async def dies_with_a_job_that_has_begun(fleet: Fleet) -> bool:
    """Whether it had begun: it is stored only while the dispatcher looks for what waits."""
    label = new_id()
    await arm(fleet, "submit.after_commit=kill")
    await until(lambda: has_a_runner(fleet), 20, fleet.trouble, interval=0.05)
    async with fleet.client() as mesh:
        submitting = asyncio.create_task(mesh.with_options(labels={"test": label}).submit(note))
        await fleet[DISPATCHER].dead()
        left = await the_job(fleet, label)
        owed = await fleet.value("SELECT count(*) FROM jobmesh.outbox")
        await heal(fleet)
        job = await asyncio.wait_for(submitting, 20)
    row = await ended(fleet, label)
    assert str(row["job_id"]) == job.id
    if left["state"] == "QUEUED":
        return False
    assert (left["state"], left["attempt"], owed) == ("RUNNING", 1, 0)
    assert outcomes(row)[1:] == ["SUCCEEDED"]
    assert (row["attempt"], row["failures"], row["crashes"]) == (2, 0, 0)
    return True


async def test_between_pull_and_claim_the_message_comes_again(fleet: Fleet) -> None:
    label = new_id()
    await arm(fleet, f"{BY_WAKEUP},claim.before=kill")
    async with fleet.client() as mesh:
        await mesh.with_options(labels={"test": label}).submit(note)
    await fleet[DISPATCHER].dead()
    row = await the_job(fleet, label)
    assert (row["state"], row["attempt"]) == ("QUEUED", 0)
    assert await wakeups(fleet) == 1
    await heal(fleet)
    row = await ended(fleet, label)
    assert (outcomes(row), row["crashes"]) == (["SUCCEEDED"], 0)


async def test_between_claim_and_ack_the_message_goes_stale_and_is_dropped(
    fleet: Fleet, tmp_path: Path
) -> None:
    label = new_id()
    await arm(fleet, f"{BY_WAKEUP},claim.before_ack=wait:{tmp_path / 'never'}")
    async with fleet.client() as mesh:
        await mesh.with_options(labels={"test": label}).submit(note)
    row = await ended(fleet, label)
    assert await wakeups(fleet) == 1
    await heal(fleet)
    await until(lambda: no_wakeups(fleet), 20, fleet.trouble, interval=0.1)
    after = await the_job(fleet, label)
    assert (after["revision"], outcomes(after)) == (row["revision"], ["SUCCEEDED"])


async def test_between_claim_and_send_the_runner_lacks_it_and_its_attach_tells(
    fleet: Fleet,
) -> None:
    label = new_id()
    await arm(fleet, f"{BY_WAKEUP},claim.before_send=kill")
    async with fleet.client() as mesh:
        await mesh.with_options(labels={"test": label}).submit(note)
    await fleet[DISPATCHER].dead()
    row = await the_job(fleet, label)
    assert (row["state"], row["attempt"]) == ("RUNNING", 1)
    await heal(fleet)
    row = await ended(fleet, label)
    assert outcomes(row)[1:] == ["SUCCEEDED"]
    assert (row["attempt"], row["failures"], row["crashes"]) == (2, 0, 0)


@pytest.mark.parametrize("way", ["", f"{BY_WAKEUP},"], ids=["at once", "by wake-up"])
async def test_a_claim_whose_commit_was_not_answered_is_found_by_the_slow_cycle(
    fleet: Fleet, way: str
) -> None:
    label = new_id()
    await arm(fleet, f"{way}claim.before_send=error*1")
    await until(lambda: has_a_runner(fleet), 20, fleet.trouble, interval=0.05)
    async with fleet.client() as mesh:
        await mesh.with_options(labels={"test": label}).submit(note)
    row = await ended(fleet, label)
    assert fleet[DISPATCHER].running
    assert outcomes(row)[1:] == ["SUCCEEDED"]
    assert (row["attempt"], row["failures"], row["crashes"]) == (2, 0, 0)


async def test_between_the_commit_of_a_finish_and_its_answer_the_repeated_report_is_answered(
    fleet: Fleet,
) -> None:
    label = new_id()
    await arm(fleet, "finish.after_commit=kill")
    ran = await attempts_run(fleet)
    async with fleet.client() as mesh:
        await mesh.with_options(labels={"test": label}).submit(note)
    await fleet[DISPATCHER].dead()
    row = await the_job(fleet, label)
    assert (row["state"], outcomes(row)) == ("SUCCEEDED", ["SUCCEEDED"])
    assert await unanswered(fleet) == 1
    await heal(fleet)
    await until(lambda: all_answered(fleet), 20, fleet.trouble, interval=0.05)
    assert (await the_job(fleet, label))["revision"] == row["revision"]
    assert await attempts_run(fleet) == ran + 1


async def test_a_report_that_is_repeated_for_want_of_an_answer_is_not_refused(fleet: Fleet) -> None:
    await arm(fleet, "finish.after_commit=kill")
    runner = RunnerByHand(fleet[DISPATCHER].address)
    async with fleet.client() as mesh:
        job = await mesh.submit(runner.type)
    async with runner.attached():
        assignment = (await runner.hear("assignments")).assignments.jobs[0]
        assert assignment.job_id == job.id
        await runner.report(assignment)
        await fleet[DISPATCHER].dead()
    assert await state_of(fleet, job) == "SUCCEEDED"
    await heal(fleet)
    async with runner.attached(held=assignment):
        await runner.report(assignment)
        (ack,) = (await runner.hear("report_acks")).report_acks.acks
    assert (ack.lease.job_id, ack.status) == (job.id, REPORT_STATUS_RECORDED)


async def test_a_job_that_took_a_slot_over_and_was_not_sent_comes_to_its_runner_all_the_same(
    fleet: Fleet,
) -> None:
    await arm(fleet, "finish.after_commit=kill")
    # More room than the claims that are under way reserve: else the slot is given back to all.
    runner = RunnerByHand(fleet[DISPATCHER].address, slots=2 * HELD_AT_ONCE)
    async with fleet.client() as mesh:
        await mesh.queues.update(runner.type, max_running=1)
        jobs = await mesh.with_options(queue=runner.type).submit_many([(runner.type, {})] * 2)
    async with runner.attached():
        first = (await runner.hear("assignments")).assignments.jobs[0]
        (other,) = (job for job in jobs if job.id != first.job_id)
        await until(lambda: is_parked(fleet, other), 10, fleet.trouble, interval=0.05)
        await runner.report(first)
        await fleet[DISPATCHER].dead()
    assert await state_of(fleet, other) == "RUNNING"
    await heal(fleet)
    async with runner.attached(held=first):
        second = (await runner.hear("assignments")).assignments.jobs[0]
        assert (second.job_id, second.attempt) == (other.id, 2)
        await runner.report(second)
        await runner.hear("report_acks")
    assert [await state_of(fleet, job) for job in jobs] == ["SUCCEEDED"] * 2


class RunnerByHand:
    """What a runner says and hears, word by word; it serves one type that nobody else knows."""

    def __init__(self, dispatcher: str, slots: int = 1) -> None:
        self.type = f"by-hand-{new_id()}"
        self._slots = slots
        self._dispatcher = dispatcher
        self._session = new_id()
        self._call: Any = None

    @asynccontextmanager
    async def attached(self, held: Assignment | None = None) -> AsyncIterator[None]:
        """Attach, with the claim that it holds."""
        hello = Hello(
            session_id=self._session, runner_id=self.type, types=[self.type], slots=self._slots
        )
        if held is not None:
            hello.held.append(_lease(held))
        async with open_channel(self._dispatcher, health_check=False) as channel:
            # A connection that was refused a moment ago is not tried again at once.
            await asyncio.wait_for(channel.channel_ready(), 20)
            stub: Any = RunnerServiceStub(channel)
            self._call = stub.Work(timeout=60)
            await self._say(hello=hello)
            await self.hear("welcome")
            yield
            self._call.cancel()

    async def report(self, assignment: Assignment) -> None:
        """Say that the handler has returned."""
        report = Report(job_id=assignment.job_id, attempt=assignment.attempt)
        report.succeeded.result.data = b"1"
        report.succeeded.result.content_type = "application/json"
        await self._say(reports=Reports(reports=[report]))

    async def hear(self, kind: str) -> WorkResponse:
        """The next message, which is of that kind."""
        response: WorkResponse = await asyncio.wait_for(self._call.read(), 20)
        assert response.WhichOneof("message") == kind, response
        return response

    async def _say(self, **message: Any) -> None:
        await self._call.write(WorkRequest(**message))


def _lease(assignment: Assignment) -> Lease:
    return Lease(job_id=assignment.job_id, attempt=assignment.attempt)


async def state_of(fleet: Fleet, job: JobHandle) -> str:
    statement = "SELECT state FROM jobmesh.jobs WHERE job_id = $1"
    return str(await fleet.value(statement, UUID(job.id)))


async def is_parked(fleet: Fleet, job: JobHandle) -> bool:
    statement = "SELECT hold_reason FROM jobmesh.jobs_live WHERE job_id = $1"
    return bool(await fleet.value(statement, UUID(job.id)) == "MAX_RUNNING")


async def unanswered(fleet: Fleet) -> float:
    return await fleet["runner-1"].metric("jobmesh_runner_unanswered_reports")


async def all_answered(fleet: Fleet) -> bool:
    return await unanswered(fleet) == 0


async def attempts_run(fleet: Fleet) -> float:
    return await fleet["runner-1"].metric("jobmesh_runner_attempts_total", type="note")


async def no_wakeups(fleet: Fleet) -> bool:
    return await wakeups(fleet) == 0


async def no_outbox(fleet: Fleet) -> bool:
    return bool(await fleet.value("SELECT count(*) = 0 FROM jobmesh.outbox"))
