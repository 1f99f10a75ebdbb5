"""The connection to NATS, and the streams that jobmesh keeps there.

The broker is never the truth: it may be down, lose its store or forget a stream, and nothing is
lost or refused. The connection is made in the background and for ever, also a new one where the
client gave its own up; whoever needs it asks `connected`, and is told through `on_connect` of each
time it came to be. What was subscribed to stays so.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable

import nats
from nats.aio.client import Client
from nats.aio.msg import Msg
from nats.aio.subscription import Subscription
from nats.errors import Error as NatsError
from nats.js.api import RetentionPolicy, StorageType, StreamConfig
from nats.js.errors import NotFoundError

from jobmesh.errors import BackendUnavailable
from jobmesh.server.tasks import TaskOwner

log = logging.getLogger(__name__)

JOBS = "JOBMESH_JOBS"
DEAD = "JOBMESH_DEAD"
ADVISORIES = "JOBMESH_ADVISORIES"
ADVISORY_SUBJECTS = [
    f"$JS.EVENT.ADVISORY.CONSUMER.MAX_DELIVERIES.{JOBS}.>",
    f"$JS.EVENT.ADVISORY.CONSUMER.MSG_TERMINATED.{JOBS}.>",
]
API_TIMEOUT_SECONDS = 5.0
FIRST_CONNECT_SECONDS = 5.0
UNSUBSCRIBE_SECONDS = 2.0
DAY = 86_400.0

Heard = Callable[[Msg], Awaitable[None]]


class Broker:
    """One connection, made again whenever it breaks."""

    def __init__(self, url: str, *, replicas: int = 1) -> None:
        self._servers = [server.strip() for server in url.split(",")]
        self._replicas = replicas
        self._client: Client | None = None
        self._owner = TaskOwner()
        self._ready = asyncio.Event()
        self._announcing = asyncio.Lock()
        self._listeners: list[Callable[[], Awaitable[None]]] = []
        self._subscriptions: dict[str, Heard] = {}
        self._live: dict[str, Subscription] = {}  # those of this connection

    @property
    def connected(self) -> bool:
        """Whether messages can be sent now."""
        return self._ready.is_set() and self._client is not None and self._client.is_connected

    @property
    def client(self) -> Client:
        """The connection. Raises `BackendUnavailable` while there is none."""
        if self._client is None or not self.connected:
            raise BackendUnavailable("nats")
        return self._client

    def on_connect(self, listener: Callable[[], Awaitable[None]]) -> None:
        """Have `listener` called after each connect and reconnect; register before `start`."""
        self._listeners.append(listener)

    async def start(self) -> None:
        """Begin to connect; go on without a broker if there is none within seconds."""
        self._owner.spawn("nats-connect", self._connect())
        try:
            async with asyncio.timeout(FIRST_CONNECT_SECONDS):
                await self._ready.wait()
        except TimeoutError:
            log.warning("nats is not there yet; going on without it")

    async def stop(self) -> None:
        """Close the connection."""
        await self._owner.stop()
        client, self._client = self._client, None
        if client is not None and not client.is_closed:
            try:
                await asyncio.wait_for(client.close(), 5)
            except (NatsError, TimeoutError, OSError) as error:  # it has gone meanwhile
                log.debug("nats was not closed in order: %r", error)

    async def subscribe(self, subject: str, heard: Heard) -> None:
        """Hear a subject, on this connection and all that follow. Raises `BackendUnavailable`."""
        self._live[subject] = await self.client.subscribe(subject, cb=heard)
        self._subscriptions[subject] = heard

    async def unsubscribe(self, subject: str) -> None:
        """Hear a subject no more; what the server has sent by now is heard before."""
        self._subscriptions.pop(subject, None)
        subscription = self._live.pop(subject, None)
        if subscription is None:
            return
        try:
            async with asyncio.timeout(UNSUBSCRIBE_SECONDS):
                await subscription.drain()  # type: ignore[no-untyped-call]
        except (NatsError, TimeoutError, OSError) as error:
            log.debug("%s is heard no more, nor what was on its way: %s", subject, error)

    async def _connect(self) -> None:
        while True:
            try:
                self._client = client = await self._new_client()
                break
            except (NatsError, OSError, TimeoutError) as error:
                log.warning("nats: %s: %s", type(error).__name__, error)
                await asyncio.sleep(1)  # a backoff: there is nothing to wait for
        for subject, heard in self._subscriptions.items():
            self._live[subject] = await client.subscribe(subject, cb=heard)
        await self._announce()

    async def _new_client(self) -> Client:
        return await nats.connect(
            self._servers,
            connect_timeout=2,
            ping_interval=1,  # a dead broker is noticed in seconds, not in minutes
            max_outstanding_pings=2,
            reconnect_time_wait=0.2,
            max_reconnect_attempts=-1,
            reconnected_cb=self._reconnected,
            disconnected_cb=self._disconnected,
            closed_cb=self._closed,
            error_cb=self._failed,
        )

    async def _announce(self) -> None:
        """One at a time: a connection that flaps is announced as often as it came back."""
        async with self._announcing:
            await self._until_streams()
            self._ready.set()
            for listener in self._listeners:
                try:
                    await listener()
                except BackendUnavailable:
                    log.info("nats is gone again already")  # and is announced when it is back

    async def _until_streams(self) -> None:
        told = False
        while self._client is not None:
            try:
                await self.ensure_streams()
                break
            except BackendUnavailable as error:
                if not told:
                    log.warning("jetstream is not ready: %r", error.__cause__ or error)
                told = True
                await asyncio.sleep(0.5)  # JetStream starts after the server does

    async def _reconnected(self) -> None:
        log.info("nats is back")
        self._owner.spawn("nats-reconnected", self._announce())

    async def _closed(self) -> None:
        """The client has given up for good, as it does after most errors that a server names."""
        if self._client is not None:
            log.warning("nats has closed the connection; another one is made")
            self._owner.spawn("nats-connect", self._connect())

    async def _disconnected(self) -> None:
        log.warning("nats is gone")

    async def _failed(self, error: Exception) -> None:
        log.warning("nats: %s: %s", type(error).__name__, error)

    async def ensure_streams(self) -> None:
        """Make the streams that are missing. Raises `BackendUnavailable`."""
        for config in self._streams():
            await self._ensure_stream(config)

    def _streams(self) -> list[StreamConfig]:
        # No duplicate window: a wake-up has no message id, and a repeated one does no harm.
        jobs = StreamConfig(name=JOBS, subjects=["jm.job.>"], retention=RetentionPolicy.WORK_QUEUE)
        dead = StreamConfig(name=DEAD, subjects=["jm.dead.>"], max_age=90 * DAY, max_bytes=1 << 30)
        advisories = StreamConfig(
            name=ADVISORIES, subjects=ADVISORY_SUBJECTS, max_age=7 * DAY, max_bytes=64 << 20
        )
        for config in (jobs, dead, advisories):
            config.storage = StorageType.FILE
            config.num_replicas = self._replicas
        return [jobs, dead, advisories]

    async def _ensure_stream(self, config: StreamConfig) -> None:
        if self._client is None or not self._client.is_connected:
            raise BackendUnavailable("nats")
        jetstream = self._client.jetstream(timeout=API_TIMEOUT_SECONDS)
        try:
            try:
                await jetstream.stream_info(config.name or "")
            except NotFoundError:
                await jetstream.add_stream(config)
                log.info("stream %s made", config.name)
        except (NatsError, TimeoutError, OSError) as error:
            raise BackendUnavailable("nats") from error
