"""Events from dispatchers over core NATS, and the announcements that ask for them.

One wildcard subscription takes the events of all buckets, and what nobody here watches is dropped
by its subject alone. One subscription a bucket would spare those messages, but costs a task and a
queue each, a round trip before each new watch, and spares nothing once a few hundred jobs are
watched, since they lie in all buckets.

NATS may be down at the start and at any time: the gateway then works on, and watchers poll.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Sequence

import nats
import nats.errors
from google.protobuf.message import DecodeError
from nats.aio.client import Client
from nats.aio.msg import Msg

from jobmesh.batching import Batcher
from jobmesh.errors import JobmeshError
from jobmesh.ids import bucket_of, new_id
from jobmesh.server import metrics
from jobmesh.server.lifecycle import Periodic, TaskOwner
from jobmesh.v1.broker_pb2 import EventBatch, WatchAnnouncement
from jobmesh_gateway.fanout import Watchers
from jobmesh_gateway.flushes import Flushes

log = logging.getLogger(__name__)

_up = metrics.gauge("jobmesh_gateway_events_connected", "Whether events come in over NATS: 1 or 0.")

EVENTS = "jm.ev.*"
ANNOUNCEMENTS = "jm.watch"
ANNOUNCE_SECONDS = 1.0
FLUSH_SECONDS = 1.0
CLOSE_SECONDS = 5.0
# A loop that is so far behind does better to read the jobs than to work off old events.
MAX_PENDING_MESSAGES = 16_384
MAX_PENDING_BYTES = 32 << 20
_LOG_SECONDS = 10.0


class EventFeed:
    """Brings events to watchers. A lifecycle part."""

    def __init__(self, url: str, watchers: Watchers) -> None:
        self.gateway_id = new_id()
        self._servers = [server.strip() for server in url.split(",")]
        self._watchers = watchers
        self._client: Client | None = None
        self._announced = bytes(32)
        self._owner = TaskOwner()
        self._periodic = Periodic("announce-watches", ANNOUNCE_SECONDS, self._announce)
        self._announcements: Batcher[int, None] = Batcher(
            self._flush, max_items=10_000, max_waiting=100_000, name="announcements"
        )
        self._flushes = Flushes()
        self._log_again = 0.0

    @property
    def connected(self) -> bool:
        """Whether events can come in."""
        return self._client is not None and bool(self._client.is_connected)

    async def start(self) -> None:
        """Begin to connect; returns at once."""
        await self._announcements.start()
        self._owner.spawn("nats-connect", self._connect())
        await self._periodic.start()

    async def stop(self) -> None:
        """Disconnect."""
        await self._periodic.stop()
        await self._announcements.stop()
        await self._owner.stop()
        client, self._client = self._client, None
        if client is not None:
            await _close(client)
        await self._flushes.stop()

    async def want(self, job_id: str) -> None:
        """Return once dispatchers were asked for events of the job, or cannot be asked.

        Its watcher was added before: what is announced is what is watched.
        """
        bucket = bucket_of(job_id)
        if not self.connected or self._announced[bucket // 8] >> bucket % 8 & 1:
            return
        try:
            await self._announcements.submit(bucket)
        except JobmeshError:
            log.debug("an announcement was given up", exc_info=True)

    async def _connect(self) -> None:
        client = Client()
        try:
            # Tries for ever, now and after each loss.
            await client.connect(
                self._servers,
                name="jobmesh-gateway",
                max_reconnect_attempts=-1,
                reconnect_time_wait=1,
                connect_timeout=2,
                ping_interval=1,
                max_outstanding_pings=2,
                error_cb=self._on_error,
                disconnected_cb=self._on_disconnected,
                reconnected_cb=self._on_connected,
            )
            await client.subscribe(
                EVENTS,
                cb=self._on_message,
                pending_msgs_limit=MAX_PENDING_MESSAGES,
                pending_bytes_limit=MAX_PENDING_BYTES,
            )
        except BaseException:
            await client.close()
            raise
        self._client = client
        await self._on_connected()

    async def _on_connected(self) -> None:
        log.info("connected to NATS")
        _up.set(1)
        self._periodic.wake()
        self._watchers.reread()

    async def _on_disconnected(self) -> None:
        _up.set(0)
        if self._client is not None:
            log.warning("disconnected from NATS: watchers poll until it is back")
            self._announced = bytes(32)
            self._watchers.reread()

    async def _on_error(self, error: Exception) -> None:
        if isinstance(error, nats.errors.SlowConsumerError):
            self._watchers.reread()
        now = time.monotonic()
        if now >= self._log_again:
            self._log_again = now + _LOG_SECONDS
            log.warning("NATS: %s: %s", type(error).__name__, error)

    async def _on_message(self, message: Msg) -> None:
        bucket = message.subject.rpartition(".")[2]
        if not bucket.isdecimal() or not self._watchers.wants(int(bucket)):
            return
        try:
            batch = EventBatch.FromString(message.data)
        except DecodeError:
            log.warning("an event on %s cannot be read", message.subject)
            return
        self._watchers.deliver(batch.events)
        # The client would work off all that has come in before anybody else has a turn.
        await asyncio.sleep(0)

    async def _announce(self) -> None:
        """Say what is watched here; dispatchers forget a gateway that they do not hear."""
        client = self._client
        if client is None or not client.is_connected:
            return
        wanted = self._watchers.wanted()
        announcement = WatchAnnouncement(gateway_id=self.gateway_id, buckets=wanted)
        await client.publish(ANNOUNCEMENTS, announcement.SerializeToString())
        self._announced = wanted

    async def _flush(self, buckets: list[int]) -> Sequence[None]:
        """Announce, and wait until the server has it: whatever happens later will be told."""
        try:
            await self._announce()
            if self._client is not None and self._client.is_connected:
                await self._flushes.flush(self._client, FLUSH_SECONDS)
        except (TimeoutError, nats.errors.Error, OSError) as error:
            # Events may be missing until the next announcement: the re-read finds what they told.
            log.debug("an announcement was not confirmed: %s", error)
        return [None] * len(buckets)


async def _close(client: Client) -> None:
    try:
        async with asyncio.timeout(CLOSE_SECONDS):
            await client.close()
    except (nats.errors.Error, TimeoutError, OSError) as error:  # it has gone meanwhile
        log.debug("NATS was not closed in order: %r", error)
