"""Publishing what the outbox owes: at once after the commit, and deleted once acknowledged.

Whatever is committed while one batch is under way goes into the next. What cannot be published now
(the broker is down, or too much waits) stays in the outbox, where the leader finds it: nothing here
is needed for correctness, only for speed.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Iterable
from itertools import islice
from typing import TYPE_CHECKING

import msgspec
from nats.errors import Error as NatsError
from nats.errors import MaxPayloadError

from jobmesh.errors import BackendUnavailable
from jobmesh.server.metrics import counter, gauge
from jobmesh.server.tasks import TaskOwner
from jobmesh_dispatcher.sql import load
from jobmesh_dispatcher.store.outbox import OutboxMessage

if TYPE_CHECKING:
    from nats.aio.client import Client
    from nats.aio.msg import Msg

    from jobmesh_dispatcher.broker import Broker
    from jobmesh_dispatcher.database import Database

log = logging.getLogger(__name__)

BATCH = 2000
MAX_WAITING = 20_000
ACK_TIMEOUT_SECONDS = 5.0
PUBLISHED = counter(
    "jobmesh_outbox_published_total", "Messages of the outbox that the broker acknowledged."
)
UNPUBLISHED = counter(
    "jobmesh_outbox_left_total", "Messages left in the outbox for the leader to relay."
)
WAITING = gauge("jobmesh_outbox_waiting", "Messages that wait in memory to be published.")


class _PubAck(msgspec.Struct):
    stream: str = ""
    error: object = None


class Publisher:
    """Publishes rows of the outbox and deletes them."""

    def __init__(self, broker: Broker, database: Database) -> None:
        self._broker = broker
        self._database = database
        self._waiting: deque[OutboxMessage] = deque()
        self._wake = asyncio.Event()
        self._owner = TaskOwner()
        self._acks = _Acks(broker)
        self._one_at_a_time = asyncio.Lock()
        broker.on_connect(self._acks.subscribe)

    async def start(self) -> None:
        """Begin to publish."""
        self._owner.spawn("publisher", self._run())

    async def stop(self) -> None:
        """Publish what waits, as far as the broker takes it."""
        while self._waiting and self._broker.connected:
            await self.publish(self._take())
        await self._owner.stop()

    def offer(self, messages: Iterable[OutboxMessage]) -> None:
        """Publish these soon. Never waits, never fails."""
        if not self._broker.connected or len(self._waiting) >= MAX_WAITING:
            UNPUBLISHED.inc(len(list(messages)))
            return
        self._waiting.extend(messages)
        self._wake.set()

    async def _run(self) -> None:
        while True:
            await self._wake.wait()
            self._wake.clear()
            while self._waiting:
                await self.publish(self._take())
                WAITING.set(len(self._waiting))

    def _take(self) -> list[OutboxMessage]:
        batch = list(islice(self._waiting, BATCH))
        for _ in batch:
            self._waiting.popleft()
        return batch

    async def publish(self, batch: list[OutboxMessage]) -> int:
        """Publish messages and delete those that were acknowledged; their number."""
        if not batch:
            return 0
        try:
            async with self._one_at_a_time:
                acked = await self._acks.publish(batch)
            if acked:
                await self._database.fetch(load("delete_outbox"), acked)
        except BackendUnavailable as error:
            log.warning("%d message(s) stay in the outbox: %s", len(batch), error)
            return 0
        PUBLISHED.inc(len(acked))
        UNPUBLISHED.inc(len(batch) - len(acked))
        return len(acked)


class _Acks:
    """Publishes many messages and awaits all their acknowledgements, on one subscription."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._prefix = ""
        self._awaited: dict[str, int] = {}
        self._acked: list[int] = []
        self._all = asyncio.Event()
        self._refused = False

    async def subscribe(self) -> None:
        if not self._prefix:
            prefix = self._broker.client.new_inbox()
            await self._broker.subscribe(f"{prefix}.*", self._on_ack)
            self._prefix = prefix

    async def publish(self, batch: list[OutboxMessage]) -> list[int]:
        """Ids of the messages that the stream has stored. One call at a time.

        Raises `BackendUnavailable`.
        """
        client = self._broker.client
        if not self._prefix:
            return []
        self._acked, self._refused = [], False
        self._awaited = {str(message.id): message.id for message in batch}
        self._all.clear()
        try:
            async with asyncio.timeout(ACK_TIMEOUT_SECONDS):
                for message in batch:
                    await self._send(client, message)
            # Another limit: a client that is flushing swallows the cancellation of the first one.
            async with asyncio.timeout(ACK_TIMEOUT_SECONDS):
                await self._all.wait()
        except TimeoutError:
            log.warning("%d publish(es) were not acknowledged in time", len(self._awaited))
        except (NatsError, OSError) as error:
            log.warning("publishing: %s", error)
        if self._refused:
            await self._make_streams()
        return self._acked

    async def _send(self, client: Client, message: OutboxMessage) -> None:
        try:
            await client.publish(
                message.subject, message.body, reply=f"{self._prefix}.{message.id}"
            )
        except MaxPayloadError:
            # Nor will it be smaller the next time, when it would keep all later ones back.
            log.error("a message of %d bytes to %s is given up", len(message.body), message.subject)
            self._settle(str(message.id), stored=True)

    async def _make_streams(self) -> None:
        try:
            await self._broker.ensure_streams()
        except BackendUnavailable as error:
            log.warning("the streams are not there: %r", error.__cause__ or error)

    async def _on_ack(self, message: Msg) -> None:
        self._settle(message.subject.rpartition(".")[2], stored=self._stored(message))

    def _settle(self, key: str, *, stored: bool) -> None:
        number = self._awaited.pop(key, None)
        if number is None:
            return
        if stored:
            self._acked.append(number)
        else:
            self._refused = True
        if not self._awaited:
            self._all.set()

    def _stored(self, message: Msg) -> bool:
        if not message.data:  # nobody listens to the subject: the stream is gone
            return False
        try:
            ack = msgspec.json.decode(message.data, type=_PubAck)
        except msgspec.DecodeError:
            return False
        return bool(ack.stream) and ack.error is None
