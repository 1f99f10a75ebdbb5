"""Advisories of the broker: followed, unless they are of another time or make no sense."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from uuid import UUID

import msgspec
import pytest

from jobmesh_dispatcher.after_commit import AfterCommit
from jobmesh_dispatcher.broker import JOBS, Broker
from jobmesh_dispatcher.database import Database
from jobmesh_dispatcher.events import Events
from jobmesh_dispatcher.nudges import Nudges
from jobmesh_dispatcher.publisher import Publisher
from jobmesh_dispatcher.store.submit import Call, store_calls
from jobmesh_dispatcher.undelivered import Undelivered
from tests.support import decisions as d

ADVISORY = f"$JS.EVENT.ADVISORY.CONSUMER.MAX_DELIVERIES.{JOBS}.c"


@dataclass
class Mesh:
    database: Database
    broker: Broker
    publisher: Publisher
    undelivered: Undelivered

    async def submit(self) -> UUID:
        job = d.submission()
        _, messages = await self.database.run(
            lambda c: store_calls(c, [Call(d.uid(), [job], False)])
        )
        assert await self.publisher.publish(messages) == 1
        return job.job_id

    async def advise(self, data: bytes) -> None:
        await self.broker.client.jetstream().publish(ADVISORY, data)

    async def stored(self) -> int:
        return (await self.broker.client.jetstream().stream_info(JOBS)).state.messages


@pytest.fixture
async def mesh(database: str, nats_url: str) -> AsyncIterator[Mesh]:
    async with d.opened(database) as db:
        broker = Broker(nats_url)
        publisher = Publisher(broker, db)
        after_commit = AfterCommit(publisher, Events(broker), Nudges(broker))
        await broker.start()
        await d.make_queue(db)
        yield Mesh(db, broker, publisher, Undelivered(db, broker, after_commit))
        await publisher.stop()
        await broker.stop()


def advisory(seq: int, age: timedelta = timedelta(0)) -> bytes:
    return msgspec.json.encode({"stream_seq": seq, "timestamp": datetime.now(UTC) - age})


async def test_a_message_that_was_given_up_charges_its_jobs(mesh: Mesh) -> None:
    job_id = await mesh.submit()
    await mesh.advise(advisory(1))
    assert await mesh.undelivered.run(0) == 1
    assert (await d.job(mesh.database, job_id))["crashes"] == 1


async def test_an_advisory_of_a_stream_that_was_lost_charges_nobody(mesh: Mesh) -> None:
    """Numbers begin again in a stream that was made again."""
    await mesh.advise(advisory(1, age=timedelta(minutes=5)))
    job_id = await mesh.submit()
    assert await mesh.undelivered.run(0) == 0
    assert (await d.job(mesh.database, job_id))["crashes"] == 0
    assert await mesh.stored() == 1


async def test_an_advisory_that_cannot_be_read_keeps_none_back(mesh: Mesh) -> None:
    await mesh.submit()
    await mesh.advise(b"no json")
    await mesh.advise(advisory(1))
    assert await mesh.undelivered.run(0) == 1
    assert await mesh.undelivered.run(0) == 0
