"""JetStream by itself: acknowledged publishes, and pull and acknowledge, on a work queue."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import repeat

import nats
from nats.aio.msg import Msg
from nats.js import JetStreamContext
from nats.js.api import ConsumerConfig, RetentionPolicy, StorageType, StreamConfig

from benchmarks.flight import rate

STREAM = "BENCH_FLOOR"
SUBJECT = "bench.floor"
PAYLOAD = b'{"month":"2026-10","rows":1000,"carrier":"AA","dry_run":false}'
PUBLISHES_IN_FLIGHT = 128
FETCH = 500
FETCH_TIMEOUT = 5.0
TIMEOUT = 30.0


@asynccontextmanager
async def work_queue(url: str) -> AsyncIterator[JetStreamContext]:
    """A connection with an empty work-queue stream, removed at the end."""
    connection = await nats.connect(url, connect_timeout=5, allow_reconnect=False)
    try:
        jetstream = connection.jetstream(timeout=TIMEOUT)
        await jetstream.add_stream(
            StreamConfig(
                name=STREAM,
                subjects=[SUBJECT],
                retention=RetentionPolicy.WORK_QUEUE,
                storage=StorageType.FILE,
            )
        )
        try:
            yield jetstream
        finally:
            await jetstream.delete_stream(STREAM)
    finally:
        await connection.close()


async def publishes(jetstream: JetStreamContext, count: int) -> float:
    """Acknowledged publishes a second, one message each, many in flight."""

    async def publish(payload: bytes) -> None:
        await jetstream.publish(SUBJECT, payload, timeout=TIMEOUT)

    # Not publish_async: it reached half of this.
    return await rate(repeat(PAYLOAD, count), publish, PUBLISHES_IN_FLIGHT)


async def pulls(jetstream: JetStreamContext, count: int) -> float:
    """Messages a second that are pulled in batches and acknowledged, each batch confirmed once."""
    subscription = await jetstream.pull_subscribe(
        SUBJECT, durable="bench", config=ConsumerConfig(max_ack_pending=10 * FETCH)
    )
    left = count
    began = time.perf_counter()
    while left:
        messages = await subscription.fetch(min(FETCH, left), timeout=FETCH_TIMEOUT)
        await _acknowledge(messages)
        left -= len(messages)
    return count / (time.perf_counter() - began)


async def _acknowledge(messages: list[Msg]) -> None:
    *most, last = messages
    for message in most:
        await message.ack()
    await last.ack_sync(timeout=TIMEOUT)
