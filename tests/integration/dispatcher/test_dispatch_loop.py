"""The loop that claims, when the database, a job or a runner is not as it should be."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit, urlunsplit
from uuid import UUID

import pytest
from google.protobuf.duration_pb2 import Duration

from jobmesh.dev.nats import EmbeddedNats
from jobmesh.ids import new_id
from jobmesh.v1.dispatch_service_pb2 import JobSubmission, SubmitJobsRequest
from jobmesh.v1.job_pb2 import JOB_STATE_QUEUED, JobSpec
from jobmesh_dispatcher.after_commit import AfterCommit
from jobmesh_dispatcher.attachment import Attachment
from jobmesh_dispatcher.broker import ADVISORIES, JOBS, Broker
from jobmesh_dispatcher.claims import Claims
from jobmesh_dispatcher.database import Database
from jobmesh_dispatcher.dispatch_loop import DispatchLoop
from jobmesh_dispatcher.events import Events
from jobmesh_dispatcher.intake import Intake
from jobmesh_dispatcher.nudges import Nudges
from jobmesh_dispatcher.publisher import Publisher
from jobmesh_dispatcher.pulls import Pulls, PullSettings
from jobmesh_dispatcher.queue_cache import QueueCache
from jobmesh_dispatcher.queue_token import queue_token
from jobmesh_dispatcher.roster import Roster
from jobmesh_dispatcher.store.claim import CLAIM_BYTES
from jobmesh_dispatcher.store.submit import Call, store_calls
from jobmesh_dispatcher.straight import MOST_STRAIGHT, Straight
from tests.support import decisions as d
from tests.support.dispatchers import hello
from tests.support.proxy import TcpProxy
from tests.support.wait import until

ACK_WAIT = 0.5
MAX_DELIVER = 4
CHANNEL = (queue_token(d.NAMESPACE, d.QUEUE), 4)


@dataclass
class Claimer:
    """A dispatcher that publishes, pulls and claims, for runners without streams."""

    database: Database
    broker: Broker
    publisher: Publisher
    roster: Roster
    after_commit: AfterCommit
    intake: Intake
    loop: DispatchLoop

    async def runner(self, slots: int = 4) -> Attachment:
        """A runner of jobs of the types `t` and `bad`."""
        said = hello(slots=slots)
        said.types.append("bad")
        attachment = Attachment(said)
        await d.reattach(self.database, attachment.seat())
        self.roster.add(attachment)
        return attachment

    async def lone_runner(self, slots: int = 4) -> Attachment:
        """One that the loop claims nothing for: what it gets has begun as it was stored."""
        await self.loop.stop()
        return await self.runner(slots)

    async def submit(self, *types: str) -> list[UUID]:
        """Store and publish a job of each type, as one call."""
        jobs = [d.submission(type=job_type) for job_type in types]
        call = Call(d.uid(), jobs, False)
        _, messages = await self.database.run(lambda c: store_calls(c, [call]))
        assert await self.publisher.publish(messages) == len(messages)
        return [job.job_id for job in jobs]

    async def take_in(self, *types: str, **spec: Any) -> list[UUID]:
        """Submit a job of each type, in one call of a gateway."""
        jobs = [
            JobSubmission(
                job_id=new_id(),
                namespace=d.NAMESPACE,
                job=JobSpec(queue=d.QUEUE, type=job_type, priority=4, **spec),
            )
            for job_type in types
        ]
        request = SubmitJobsRequest(operation_id=new_id(), submissions=jobs)
        answer = await self.intake.submit(request)
        told = [result.ok.job for result in answer.results]
        assert [(job.state, job.revision) for job in told] == [(JOB_STATE_QUEUED, 1)] * len(jobs)
        return [UUID(job.job_id) for job in told]

    async def wakeups(self) -> int:
        """How many were ever published."""
        return (await self.broker.client.jetstream().stream_info(JOBS)).state.last_seq

    async def owes_nothing(self) -> bool:
        """Whether the outbox is empty."""
        return not await self.database.fetch("SELECT id FROM jobmesh.outbox")

    async def holds_a_wakeup(self) -> bool:
        """Whether one was delivered and not acknowledged yet."""
        consumers = await self.broker.client.jetstream().consumers_info(JOBS)  # none at first
        return any(consumer.num_ack_pending for consumer in consumers)

    async def nothing_waits(self) -> bool:
        """Whether all wake-ups have been acknowledged."""
        return (await self.broker.client.jetstream().stream_info(JOBS)).state.messages == 0


@asynccontextmanager
async def claimer(dsn: str, nats_url: str, *, ack_wait: float = ACK_WAIT) -> AsyncIterator[Claimer]:
    async with d.opened(dsn) as database:
        broker = Broker(nats_url)
        publisher = Publisher(broker, database)
        after_commit = AfterCommit(publisher, Events(broker), Nudges(broker))
        roster = Roster()
        settings = PullSettings(MAX_DELIVER, ack_wait)
        claims = Claims(database, roster, after_commit)
        loop = DispatchLoop(
            database,
            roster,
            claims,
            lambda on_message, on_end: Pulls(broker, settings, on_message, on_end),
            ack_wait_seconds=ack_wait,
        )
        queues = QueueCache(database, Nudges(broker))
        # What waits is looked for each second: no test is to depend on when.
        straight = Straight(roster, claims, lambda: True)
        intake = Intake(database, queues, after_commit, straight)
        await broker.start()
        try:
            await d.make_queue(database)
            loop.serve([CHANNEL])
            await loop.start()
            await publisher.start()
            await intake.start()
            yield Claimer(database, broker, publisher, roster, after_commit, intake, loop)
        finally:
            await intake.stop()
            await loop.stop()
            await publisher.stop()
            await broker.stop()


@pytest.fixture
async def one(database: str, nats_url: str) -> AsyncIterator[Claimer]:
    async with claimer(database, nats_url) as started:
        yield started


async def test_a_job_is_claimed_and_its_wakeup_acknowledged(one: Claimer) -> None:
    runner = await one.runner()
    (job_id,) = await one.submit("t")
    await until(lambda: job_id in runner.leases, timeout=5)
    await until(one.nothing_waits, timeout=5)


async def test_jobs_that_can_begin_at_once_need_no_broker(one: Claimer) -> None:
    runner = await one.lone_runner()
    await one.broker.stop()
    jobs = await one.take_in("t", "t")
    assert runner.leases.keys() == set(jobs)
    assert {lease.attempt for lease in runner.leases.values()} == {1}
    assert await one.owes_nothing()
    for job_id in jobs:
        row = await d.job(one.database, job_id)
        assert (row["state"], row["attempt"], row["revision"]) == ("RUNNING", 1, 2)
        assert row["session_id"] == runner.session_id
        assert [change["state"] for change in row["history"]] == ["QUEUED", "RUNNING"]
    assert runner.free == runner.slots - 2


async def test_they_are_reported_as_any_other(one: Claimer) -> None:
    runner = await one.lone_runner()
    (job_id,) = await one.take_in("t")
    recorded = await d.report(one.database, d.succeeded(runner.leases[job_id]))
    assert recorded.settled == {(job_id, 1)}


async def test_what_does_not_fit_is_published_and_parked(one: Claimer) -> None:
    runner = await one.runner()
    known, strange = await one.take_in("t", "strange")
    await until(lambda: runner.leases.keys() == {known}, timeout=5)

    async def parked() -> bool:
        return bool((await d.job(one.database, strange))["hold_reason"] == "NO_RUNNER")

    await until(parked, timeout=5)
    await until(one.nothing_waits, timeout=5)
    assert await one.wakeups() >= 1


@pytest.mark.parametrize(("slots", "jobs"), [(2, 3), (100, MOST_STRAIGHT + 1)])
async def test_many_go_through_the_broker(one: Claimer, slots: int, jobs: int) -> None:
    runner = await one.runner(slots=slots)
    stored = await one.take_in(*["t"] * jobs)
    await until(lambda: len(runner.leases.keys() & set(stored)) == min(slots, jobs), timeout=5)
    assert await one.wakeups() == 1


async def test_many_calls_at_once_are_given_no_more_than_there_is_room_for(one: Claimer) -> None:
    runner = await one.runner(slots=3)
    stored = await asyncio.gather(*(one.take_in("t") for _ in range(12)))
    await until(lambda: len(runner.leases) == 3, timeout=5)
    assert len(stored) == 12
    assert runner.reserved == 0
    running = await one.database.fetch("SELECT FROM jobmesh.jobs_live WHERE state = 'RUNNING'")
    assert len(running) == 3


async def test_room_that_a_claim_is_about_to_take_is_not_given_away(one: Claimer) -> None:
    runner = await one.runner(slots=1)
    (first,) = await one.take_in("t")
    await until(lambda: first in runner.leases, timeout=5)
    await d.report(one.database, d.succeeded(runner.leases.pop(first)))
    parked = await d.store_one(one.database)
    await one.database.fetch("UPDATE jobmesh.jobs_live SET hold_reason = 'NO_RUNNER'")
    async with one.database.transaction() as changing:
        await changing.execute("SELECT FROM jobmesh.queues FOR UPDATE")  # the claim waits for it
        runner.held_hint = True
        one.loop.wake()
        await until(lambda: runner.reserved == 1, timeout=5)
        assert (runner.free, runner.idle) == (0, 0)
        (later,) = await one.take_in("t")
    await until(lambda: runner.leases.keys() == {parked}, timeout=5)
    await until(lambda: runner.reserved == 0, timeout=5)
    assert (await d.job(one.database, later))["state"] == "QUEUED"


async def test_nobody_waits_for_a_queue_that_is_being_changed(one: Claimer) -> None:
    runner = await one.runner()
    await one.take_in("t")  # from then on the queue is known
    async with one.database.transaction() as changing:
        await changing.execute("SELECT FROM jobmesh.queues FOR UPDATE")
        (job_id,) = await one.take_in("t")
        assert (await d.job(one.database, job_id))["state"] == "QUEUED"
    await until(lambda: job_id in runner.leases, timeout=5)


async def test_large_jobs_that_are_parked_are_taken_one_portion_after_the_other(
    one: Claimer,
) -> None:
    jobs = {await d.store_one(one.database) for _ in range(10)}
    await d.swell(one.database, CLAIM_BYTES // 3)
    await one.database.fetch("UPDATE jobmesh.jobs_live SET hold_reason = 'NO_RUNNER'")
    runner = Attachment(hello(slots=100))
    await d.reattach(one.database, runner.seat())
    await one.loop.stop()
    one.roster.add(runner)
    claims = Claims(one.database, one.roster, one.after_commit)
    await claims.held(runner)
    assert 0 < len(runner.leases) < len(jobs)
    async for _ in runner.outbound():  # whoever does not read is given no more
        if not runner.held_hint:
            break
        await claims.held(runner)
    assert runner.leases.keys() == jobs, "it was not told that there are more"


STANDS_IN_THE_WAY = {
    "its queue is paused": "UPDATE jobmesh.queues SET dispatch_paused = true",
    "its queue is limited": "UPDATE jobmesh.queues SET max_running = 5",
    "the session has ended": "UPDATE jobmesh.sessions SET end_time = clock_timestamp()",
    "the session has moved": "UPDATE jobmesh.sessions SET attachment = gen_random_uuid()",
}


@pytest.mark.parametrize("why", STANDS_IN_THE_WAY)
async def test_what_may_not_begin_is_stored_as_any_other(one: Claimer, why: str) -> None:
    runner = await one.runner()
    await one.broker.stop()  # nobody claims it then
    await one.database.fetch(STANDS_IN_THE_WAY[why])
    (job_id,) = await one.take_in("t")
    row = await d.job(one.database, job_id)
    assert (row["state"], row["attempt"], row["session_id"]) == ("QUEUED", 0, None)
    assert not await one.owes_nothing()
    assert runner.leases == {}


@pytest.mark.parametrize("when", ["expires_after", "delay"])
async def test_what_has_a_time_goes_through_the_broker(one: Claimer, when: str) -> None:
    runner = await one.runner()
    (job_id,) = await one.take_in("t", **{when: Duration(nanos=1)})
    assert job_id not in runner.leases or await one.wakeups() == 1
    assert (await d.job(one.database, job_id))["revision"] >= 1


async def test_jobs_that_fail_to_begin_as_they_are_stored_stop_no_other(one: Claimer) -> None:
    await one.database.fetch(
        """ALTER TABLE jobmesh.jobs_live ADD CONSTRAINT unforeseen
           CHECK (type <> 'bad' OR state <> 'RUNNING')"""
    )
    runner = await one.runner()
    (bad,) = await one.take_in("bad")
    (good,) = await one.submit("t")
    (beside,) = await one.take_in("t")
    await until(lambda: {good, beside} <= runner.leases.keys(), timeout=5)
    assert (await d.job(one.database, bad))["state"] == "QUEUED"


async def test_a_call_that_is_sent_again_starts_nothing_again(one: Claimer) -> None:
    runner = await one.lone_runner()
    spec = JobSpec(queue=d.QUEUE, type="t", priority=4)
    job = JobSubmission(job_id=new_id(), namespace=d.NAMESPACE, job=spec)
    request = SubmitJobsRequest(operation_id=new_id(), submissions=[job])
    for _ in range(3):
        sent = SubmitJobsRequest()
        sent.CopyFrom(request)
        (result,) = (await one.intake.submit(sent)).results
        assert result.ok.job.job_id == job.job_id
    (lease,) = runner.leases.values()
    assert lease.key == (UUID(job.job_id), 1)
    assert await one.owes_nothing()


async def test_a_loop_that_has_stopped_lets_nothing_begin(one: Claimer) -> None:
    await one.runner()
    await until(one.loop.nothing_waits, timeout=5)
    await one.loop.stop()
    assert not one.loop.nothing_waits()


async def test_a_loop_that_stops_leaves_what_it_pulled_to_others(
    database: str, nats_url: str
) -> None:
    async with claimer(database, nats_url, ack_wait=60.0) as one:
        await one.runner()
        async with one.database.transaction() as changing:
            await changing.execute("SELECT FROM jobmesh.queues FOR UPDATE")  # the claim waits
            (job_id,) = await one.submit("t")
            await until(one.holds_a_wakeup, timeout=5)
            await one.loop.stop()
    async with claimer(database, nats_url, ack_wait=60.0) as other:
        runner = await other.runner()
        await until(lambda: job_id in runner.leases, timeout=5)


async def test_what_was_asked_of_a_broker_that_has_gone_keeps_no_job_from_beginning(
    database: str, nats_url: str
) -> None:
    async with (
        TcpProxy("127.0.0.1", urlsplit(nats_url).port or 0) as proxy,
        claimer(database, f"nats://{proxy.address}") as one,
    ):
        for _ in range(3):
            await one.submit("t")
        runner = await one.runner(slots=1)
        one.loop.wake()
        await until(lambda: len(runner.leases) == 1, timeout=5)
        proxy.stall()
        runner.leases.clear()
        one.loop.wake()
        await until(lambda: one.loop.pulls.requested > 0, timeout=5)
        assert not one.loop.nothing_waits()
        proxy.cut()
        await until(lambda: not one.broker.connected, timeout=5)
        assert one.loop.nothing_waits()
        proxy.restore()
        await until(lambda: one.broker.connected, timeout=15)


async def test_an_outage_of_the_database_uses_up_no_deliveries(
    database: str, nats_url: str
) -> None:
    address = urlsplit(database)
    async with TcpProxy("127.0.0.1", address.port or 0) as proxy:
        host = f"{address.username}:{address.password}@127.0.0.1:{proxy.port}"
        async with (
            claimer(urlunsplit(address._replace(netloc=host)), nats_url) as one,
            d.opened(database) as direct,
        ):
            runner = await one.runner()
            outbox = "SELECT id, subject, body FROM jobmesh.outbox"
            job_id = await d.store_one(direct)
            ((_, subject, body),) = await direct.fetch(outbox)
            proxy.cut()
            await one.broker.client.publish(subject, body)
            # A request that is under way may bring it once more, others again and again.
            await asyncio.sleep(3 * MAX_DELIVER * ACK_WAIT)
            assert job_id not in runner.leases
            proxy.restore()
            await until(lambda: job_id in runner.leases, timeout=8)
            state = (await one.broker.client.jetstream().stream_info(ADVISORIES)).state
            assert state.messages == 0


async def test_a_job_that_cannot_be_claimed_stops_no_other(one: Claimer) -> None:
    await one.database.fetch(
        """ALTER TABLE jobmesh.jobs_live ADD CONSTRAINT unforeseen
           CHECK (type <> 'bad' OR state <> 'RUNNING')"""
    )
    bad = await one.submit("bad")
    good = [*await one.submit("t"), *await one.submit("t")]
    runner = await one.runner()
    await until(lambda: runner.leases.keys() == set(good), timeout=5)
    later = await one.submit("t")
    await until(lambda: later[0] in runner.leases, timeout=5)
    assert (await d.job(one.database, bad[0]))["state"] == "QUEUED"


async def test_a_job_that_cannot_be_claimed_leaves_the_others_of_its_wakeup_alone(
    one: Claimer,
) -> None:
    await one.database.fetch(
        """ALTER TABLE jobmesh.jobs_live ADD CONSTRAINT unforeseen
           CHECK (type <> 'bad' OR state <> 'RUNNING')"""
    )
    runner = await one.runner()
    before = await one.wakeups()
    first, bad, last = await one.submit("t", "bad", "t")
    assert await one.wakeups() == before + 1, "they are not in one message"
    await until(lambda: runner.leases.keys() == {first, last}, timeout=5)
    assert (await d.job(one.database, bad))["state"] == "QUEUED"


async def test_a_parked_job_that_nobody_told_of_is_found_by_a_busy_dispatcher(
    one: Claimer,
) -> None:
    runner = await one.runner()
    await until(lambda: not runner.held_hint, timeout=5)
    job_id = await d.store_one(one.database)
    await one.database.fetch("UPDATE jobmesh.jobs_live SET hold_reason = 'NO_RUNNER'")

    async def found() -> bool:
        one.loop.wake()  # something is going on all the time
        return job_id in runner.leases

    await until(found, timeout=5)


async def test_parked_jobs_that_may_not_run_hide_no_others(one: Claimer) -> None:
    await d.make_queue(one.database, "paused")
    await one.database.fetch(
        "UPDATE jobmesh.queues SET dispatch_paused = true WHERE name = 'paused'"
    )
    blocked = [await d.store_one(one.database, queue="paused") for _ in range(30)]
    free = await d.store_one(one.database)
    await one.database.fetch("UPDATE jobmesh.jobs_live SET hold_reason = 'NO_RUNNER'")
    runner = await one.runner(slots=1)
    await until(lambda: free in runner.leases, timeout=5)
    assert (await d.job(one.database, blocked[0]))["hold_reason"] == "QUEUE_PAUSED"


async def claims_go_on(one: Claimer, runner: Attachment) -> None:
    """A job that is submitted now is claimed within seconds."""

    async def published() -> list[UUID]:
        jobs = [d.submission()]
        _, messages = await one.database.run(lambda c: store_calls(c, [Call(d.uid(), jobs, False)]))
        return [job.job_id for job in jobs if await one.publisher.publish(messages)]

    (job_id,) = await until(published, timeout=10, interval=0.2)
    await until(lambda: job_id in runner.leases, timeout=10)


async def test_it_is_not_deaf_after_the_broker_was_restarted(
    one: Claimer, nats_server: EmbeddedNats
) -> None:
    runner = await one.runner(slots=100)
    await claims_go_on(one, runner)
    await nats_server.stop()
    await nats_server.start()
    await until(lambda: one.broker.connected, timeout=10)
    await claims_go_on(one, runner)


async def test_it_is_not_deaf_after_its_consumer_was_deleted(one: Claimer) -> None:
    runner = await one.runner(slots=100)
    await claims_go_on(one, runner)
    token, priority = CHANNEL
    await one.broker.client.jetstream().delete_consumer(JOBS, f"d-{token}-{priority}")
    await claims_go_on(one, runner)


async def test_it_is_not_deaf_after_the_stream_was_deleted(one: Claimer) -> None:
    runner = await one.runner(slots=100)
    await claims_go_on(one, runner)
    await one.broker.client.jetstream().delete_stream(JOBS)
    await claims_go_on(one, runner)


async def test_it_is_not_deaf_after_the_broker_stood_still(database: str, nats_url: str) -> None:
    async with (
        TcpProxy("127.0.0.1", urlsplit(nats_url).port or 0) as proxy,
        claimer(database, f"nats://127.0.0.1:{proxy.port}") as one,
    ):
        runner = await one.runner(slots=100)
        await claims_go_on(one, runner)
        proxy.stall()
        await until(lambda: not one.broker.connected, timeout=10)
        proxy.restore()
        await until(lambda: one.broker.connected, timeout=15)
        await claims_go_on(one, runner)
