"""The connection to NATS: broken, closed by the server, shaky while it is announced."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from urllib.parse import urlsplit

import pytest
from nats.aio.client import Client

from jobmesh.dev.nats import EmbeddedNats
from jobmesh.errors import BackendUnavailable
from jobmesh_dispatcher.broker import Broker
from jobmesh_dispatcher.database import Database
from jobmesh_dispatcher.nudges import Nudges
from jobmesh_dispatcher.publisher import Publisher
from jobmesh_dispatcher.store.outbox import OutboxMessage
from tests.support import decisions as d
from tests.support.proxy import TcpProxy
from tests.support.wait import until


@asynccontextmanager
async def started(broker: Broker) -> AsyncIterator[Broker]:
    await broker.start()
    try:
        yield broker
    finally:
        await broker.stop()


async def closed_by_the_server(broker: Broker) -> None:
    """Make the server name an error, after which the client gives up for good."""
    before: Client = broker.client
    before._transport.write(b"NONSENSE\r\n")  # type: ignore[union-attr]
    await until(lambda: before.is_closed, timeout=5)


async def test_a_connection_that_the_server_closes_is_made_anew(nats_url: str) -> None:
    broker = Broker(nats_url)
    nudges = Nudges(broker)
    heard: list[str] = []
    nudges.on_held = heard.extend
    async with started(broker):
        await closed_by_the_server(broker)
        await until(lambda: broker.connected, timeout=10)

        async def told() -> bool:
            nudges.held(["t"])
            return bool(heard)

        await until(told, timeout=5, interval=0.1)
    await nudges.stop()


async def test_a_broker_that_has_gone_does_not_hold_up_a_stop(nats_url: str) -> None:
    async with TcpProxy("127.0.0.1", urlsplit(nats_url).port or 0) as proxy:
        async with started(Broker(f"nats://{proxy.address}")) as broker:
            before: Client = broker.client
            proxy.cut()
            await until(lambda: not broker.connected, timeout=5)
            await before.publish("unsent", b"")  # which the client tries to send as it is closed
        assert before.is_closed
        for left in before._subs.values():  # it fails at what is unsent before it comes to these
            left._stop_processing()


async def test_messages_are_published_after_a_connection_was_made_anew(
    nats_url: str, database: str
) -> None:
    broker = Broker(nats_url)
    async with d.opened(database) as db:
        publisher = Publisher(broker, db)
        async with started(broker):
            await closed_by_the_server(broker)
            await until(lambda: broker.connected, timeout=10)
            messages = await owed(db, b"x")

            async def published() -> bool:
                return await publisher.publish(messages) == 1

            await until(published, timeout=10)


async def test_one_listener_that_finds_the_broker_gone_again_keeps_none_back(
    nats_url: str, nats_server: EmbeddedNats
) -> None:
    broker = Broker(nats_url)
    calls: list[int] = []

    async def unlucky() -> None:
        raise BackendUnavailable("nats")

    async def next_one() -> None:
        calls.append(1)

    broker.on_connect(unlucky)
    broker.on_connect(next_one)
    async with started(broker):
        await until(lambda: len(calls) == 1, timeout=5)
        await nats_server.stop()
        await nats_server.start()
        await until(lambda: len(calls) >= 2, timeout=10)  # the connection is still looked after


async def test_a_message_that_is_too_large_keeps_no_other_back(
    nats_url: str, database: str
) -> None:
    broker = Broker(nats_url)
    async with d.opened(database) as db:
        publisher = Publisher(broker, db)
        async with started(broker):
            messages = await owed(db, b"x" * (2 << 20), b"y")
            await publisher.publish(messages)
            assert await db.fetch("SELECT 1 FROM jobmesh.outbox") == []
            stored = (await broker.client.jetstream().stream_info("JOBMESH_JOBS")).state.messages
            assert stored == 1


async def owed(db: Database, *bodies: bytes) -> list[OutboxMessage]:
    rows = await db.fetch(
        """INSERT INTO jobmesh.outbox (subject, body)
           SELECT 'jm.job.t.4', unnest($1::bytea[]) RETURNING id, subject, body""",
        list(bodies),
    )
    return [OutboxMessage(row["id"], row["subject"], row["body"]) for row in rows]


async def test_stopping_does_not_connect_again(nats_url: str) -> None:
    broker = Broker(nats_url)
    await broker.start()
    await broker.stop()
    await asyncio.sleep(0)
    assert not broker.connected
    with pytest.raises(BackendUnavailable):
        _ = broker.client
