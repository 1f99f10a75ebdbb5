"""A pass of repairs is bounded, however many jobs wait.

A million of them with `JOBMESH_FAULTS_FULL=1`, which also says how long each pass took.
"""

from __future__ import annotations

import logging
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass

import pytest

from jobmesh.v1.dispatch_service_pb2 import ReconcileResponse
from jobmesh_dispatcher.after_commit import AfterCommit
from jobmesh_dispatcher.broker import Broker
from jobmesh_dispatcher.database import Database
from jobmesh_dispatcher.events import Events
from jobmesh_dispatcher.nudges import Nudges
from jobmesh_dispatcher.publisher import Publisher
from jobmesh_dispatcher.reconciler import Reconciler
from jobmesh_dispatcher.store.release import RELEASED_AT_ONCE
from tests.support import decisions as d
from tests.support.effort import full

log = logging.getLogger(__name__)

pytestmark = pytest.mark.timeout(full(900, 120))

BACKLOG = full(1_000_000, RELEASED_AT_ONCE + 1_000)
LIMIT = full(5_000, 100)
FILL = """
INSERT INTO jobmesh.jobs_live (job_id, namespace, queue, type, priority, spec, payload,
    payload_type, create_time, state, hold_reason, queued_at, woken_at, history)
SELECT gen_random_uuid(), 'default', $2, 't', n % 10, '', '', 'application/json', now(),
    'QUEUED', $3, now() - interval '1 hour', now() - interval '1 hour', '{}'
FROM generate_series(1, $1::integer) AS n
"""


@dataclass
class Repairs:
    """A dispatcher's repairs, of a mesh where nobody claims."""

    database: Database
    reconciler: Reconciler

    async def run(self) -> ReconcileResponse:
        began = time.monotonic()
        done = await self.reconciler.run(0, LIMIT)
        log.info("a pass over %d jobs took %.3f s", BACKLOG, time.monotonic() - began)
        return done

    async def count(self, condition: str) -> int:
        (row,) = await self.database.fetch(
            f"SELECT count(*) FROM jobmesh.jobs_live WHERE {condition}"
        )
        return int(row["count"])


@pytest.fixture
async def repairs(database: str, nats_url: str) -> AsyncIterator[Repairs]:
    async with d.opened(database) as opened:
        broker = Broker(nats_url)
        publisher = Publisher(broker, opened)
        after_commit = AfterCommit(publisher, Events(broker), Nudges(broker))
        await broker.start()
        await publisher.start()
        try:
            yield Repairs(opened, Reconciler(opened, broker, publisher, after_commit))
        finally:
            await publisher.stop()
            await broker.stop()


async def fill(repairs: Repairs, queue: str, number: int, hold_reason: str | None = None) -> None:
    await d.make_queue(repairs.database, queue)
    await repairs.database.fetch("UPDATE jobmesh.queues SET priorities = 1023")
    async with repairs.database.transaction() as connection:
        await connection.execute("SET LOCAL statement_timeout = 0")
        await connection.execute(FILL, number, queue, hold_reason, timeout=600)


async def test_jobs_that_lost_their_wakeups_are_woken_a_portion_a_pass(repairs: Repairs) -> None:
    await fill(repairs, "asleep", BACKLOG)
    for passes in (1, 2):
        assert (await repairs.run()).wakeups_published == LIMIT
        assert await repairs.count("woken_at > now() - interval '1 minute'") == passes * LIMIT


async def test_jobs_whose_hold_has_ended_are_released_a_portion_a_pass(repairs: Repairs) -> None:
    await fill(repairs, "held", BACKLOG, "QUEUE_PAUSED")
    assert (await repairs.run()).released == RELEASED_AT_ONCE
    assert await repairs.count("hold_reason IS NULL") == RELEASED_AT_ONCE


async def test_a_backlog_that_waits_as_it_should_is_left_alone(repairs: Repairs) -> None:
    await fill(repairs, "fine", BACKLOG, "NO_RUNNER")
    assert await repairs.run() == ReconcileResponse()
    assert await repairs.count("hold_reason = 'NO_RUNNER'") == BACKLOG
