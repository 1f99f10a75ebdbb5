"""Pulling wake-ups from JetStream, within the room that runners have.

One durable consumer for each queue and priority, shared by all dispatchers and made on first use;
explicit acks; one inbox for all of them. A request that the broker forgot (it restarted, the
consumer was deleted) is given up a second after it should have expired, so that nothing goes deaf.
What is pulled is handed to `on_message` and stays unacknowledged until `ack`.
"""

from __future__ import annotations

import itertools
import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple
from uuid import UUID

import msgspec
from google.protobuf.message import DecodeError
from nats.errors import Error as NatsError
from nats.js.api import AckPolicy, ConsumerConfig

from jobmesh.errors import BackendUnavailable
from jobmesh.server.metrics import counter
from jobmesh.server.tasks import TaskOwner
from jobmesh.v1.broker_pb2 import WakeUp
from jobmesh_dispatcher.broker import API_TIMEOUT_SECONDS, JOBS
from jobmesh_dispatcher.pull_plan import Source, plan

if TYPE_CHECKING:
    from nats.aio.msg import Msg

    from jobmesh_dispatcher.broker import Broker

log = logging.getLogger(__name__)

WAIT_SECONDS = 5.0
SIZED_SECONDS = 2.0
SLACK_SECONDS = 1.0
IDLE_CONSUMER_SECONDS = 86_400.0
PULLED = counter("jobmesh_wakeups_pulled_total", "Wake-ups pulled from the broker.")


class Pulled(NamedTuple):
    """A wake-up at hand. `reply` is where it is acknowledged; `time` is monotonic."""

    token: str
    job_ids: list[UUID]
    reply: str
    time: float


@dataclass(slots=True)
class Channel:
    """A queue's wake-ups of one priority."""

    token: str
    priority: int
    source: Source
    request: str = ""
    expected: int = 0
    waits: bool = False
    deadline: float = 0.0
    ready: bool = False  # its consumer is known to exist
    jobs_a_message: float = 1.0  # seen lately

    @property
    def consumer(self) -> str:
        return f"d-{self.token}-{self.priority}"


@dataclass(slots=True)
class PullSettings:
    """A message is delivered `max_deliver` times at the most, each time for `ack_wait_seconds`."""

    max_deliver: int = 5
    ack_wait_seconds: float = 10.0


class Pulls:
    """All requests of one dispatcher for wake-ups."""

    def __init__(
        self,
        broker: Broker,
        settings: PullSettings,
        on_message: Callable[[Pulled], None],
        on_end: Callable[[], None],
    ) -> None:
        self._broker = broker
        self._settings = settings
        self._on_message = on_message
        self._on_end = on_end
        self._channels: dict[tuple[str, int], Channel] = {}
        self._requests: dict[str, Channel] = {}
        self._numbers = itertools.count()
        self._prefix = ""
        self._owner = TaskOwner()
        broker.on_connect(self._connected)

    async def start(self) -> None:
        """Nothing to do before the broker is there."""

    async def stop(self) -> None:
        """Stop asking; what is on its way is taken. What is at hand is to be given back."""
        await self._owner.stop()
        if self._prefix:
            await self._broker.unsubscribe(f"{self._prefix}.*")

    @property
    def requested(self) -> int:
        """Messages that sized pulls may still bring; none while there is no broker."""
        if not self._broker.connected:
            return 0
        return sum(c.expected for c in self._channels.values() if not c.waits)

    def serve(self, channels: Sequence[tuple[str, int]]) -> None:
        """Pull from these (token, priority) from now on, and from no others."""
        for token, priority in channels:
            if (token, priority) not in self._channels:
                self._channels[token, priority] = Channel(token, priority, Source(priority))
        for key in self._channels.keys() - set(channels):
            self._requests.pop(self._channels.pop(key).request, None)

    async def pull(self, room: int) -> None:
        """Ask for what runners have room for: jobs, of which a message may bring several."""
        if not self._broker.connected or not self._prefix:
            return
        channels = list(self._channels.values())
        self._give_up(channels)
        sources = [channel.source for channel in channels]
        for pull in plan(room, sources):
            channel = channels[pull.source]
            batch = max(1, int(pull.batch / channel.jobs_a_message))
            await self._ask(channel, batch, wait=pull.wait)

    async def ack(self, messages: Sequence[Pulled]) -> None:
        """Acknowledge; the last one by a round trip, which proves that the others have arrived."""
        if not messages:
            return
        try:
            client = self._broker.client
            for message in messages[:-1]:
                await client.publish(message.reply, b"+ACK")
            await client.request(messages[-1].reply, b"+ACK", timeout=2)
        except (NatsError, TimeoutError, OSError, BackendUnavailable) as error:
            # They are delivered again, and dropped as stale.
            log.warning("%d wake-up(s) not acknowledged: %s", len(messages), error)

    async def give_back(self, messages: Sequence[Pulled]) -> None:
        """Have them delivered to others now, and not only when the ack wait is over."""
        try:
            for message in messages:
                await self._broker.client.publish(message.reply, b"-NAK")
        except (NatsError, OSError, BackendUnavailable) as error:
            log.debug("%d wake-up(s) not given back: %s", len(messages), error)

    async def _connected(self) -> None:
        """All requests of an earlier connection are lost."""
        for channel in self._channels.values():
            self._close(channel)
            channel.ready = False
        if not self._prefix:
            prefix = self._broker.client.new_inbox()
            await self._broker.subscribe(f"{prefix}.*", self._receive)
            self._prefix = prefix

    def _give_up(self, channels: Sequence[Channel]) -> None:
        now = time.monotonic()
        for channel in channels:
            if channel.source.asked and now > channel.deadline:
                log.info("a pull from %s was forgotten", channel.consumer)
                channel.ready = False
                self._close(channel)

    def _close(self, channel: Channel) -> None:
        self._requests.pop(channel.request, None)
        channel.request, channel.expected, channel.source.asked = "", 0, False

    async def _ask(self, channel: Channel, batch: int, *, wait: bool) -> None:
        seconds = WAIT_SECONDS if wait else SIZED_SECONDS
        channel.source.asked = True
        channel.expected, channel.waits = batch, wait
        channel.deadline = time.monotonic() + seconds + SLACK_SECONDS
        channel.request = str(next(self._numbers))
        self._requests[channel.request] = channel
        if channel.ready:
            await self._send(channel, batch, wait=wait)
        else:
            channel.deadline += API_TIMEOUT_SECONDS
            self._owner.spawn(
                f"consumer-{channel.consumer}", self._make_consumer(channel, batch, wait)
            )

    async def _send(self, channel: Channel, batch: int, *, wait: bool) -> None:
        request: dict[str, object] = {"batch": batch}
        if wait:
            request["expires"] = int(WAIT_SECONDS * 1e9)
        else:
            request["no_wait"] = True
        try:
            await self._broker.client.publish(
                f"$JS.API.CONSUMER.MSG.NEXT.{JOBS}.{channel.consumer}",
                msgspec.json.encode(request),
                reply=f"{self._prefix}.{channel.request}",
            )
        except (NatsError, OSError, BackendUnavailable) as error:
            log.warning("pulling from %s: %s", channel.consumer, error)
            self._close(channel)

    async def _make_consumer(self, channel: Channel, batch: int, wait: bool) -> None:
        request = channel.request
        try:
            await self._broker.client.jetstream(timeout=API_TIMEOUT_SECONDS).add_consumer(
                JOBS,
                ConsumerConfig(
                    durable_name=channel.consumer,
                    filter_subject=f"jm.job.{channel.token}.{channel.priority}",
                    ack_policy=AckPolicy.EXPLICIT,
                    ack_wait=self._settings.ack_wait_seconds,
                    max_deliver=self._settings.max_deliver,
                    max_ack_pending=20_000,
                    max_waiting=1024,
                    inactive_threshold=IDLE_CONSUMER_SECONDS,
                ),
            )
        except (NatsError, TimeoutError, OSError, BackendUnavailable) as error:
            log.warning("consumer %s: %s", channel.consumer, error)
            if channel.request == request:
                channel.deadline = time.monotonic() + SLACK_SECONDS  # and then again
            return
        channel.ready = True
        if channel.request == request:
            await self._send(channel, batch, wait=wait)

    async def _receive(self, message: Msg) -> None:
        if message.reply.startswith("$JS.ACK."):
            self._take(message)
        elif channel := self._requests.get(message.subject.rpartition(".")[2]):
            self._end(channel, message)

    def _take(self, message: Msg) -> None:
        """A wake-up, which comes under its own subject; ours until its ack wait is over."""
        PULLED.inc()
        _, _, token, priority = message.subject.split(".")
        job_ids = jobs_named(message.data)
        channel = self._channels.get((token, int(priority)))
        if channel is not None:
            channel.source.backlog = int(message.reply.rpartition(".")[2])
            channel.jobs_a_message += (max(1, len(job_ids)) - channel.jobs_a_message) / 8
            channel.expected -= 1
            if channel.expected <= 0:
                self._close(channel)
        self._on_message(Pulled(token, job_ids, message.reply, time.monotonic()))

    def _end(self, channel: Channel, message: Msg) -> None:
        """The request is over: nothing (more) waits, it expired, or the consumer is gone."""
        status = (message.headers or {}).get("Status", "503")
        channel.source.backlog = 0
        if status not in ("404", "408"):
            log.info("pull from %s: status %s", channel.consumer, status)
            channel.ready = False
        self._close(channel)
        self._on_end()


def jobs_named(body: bytes) -> list[UUID]:
    """The jobs of a wake-up; none if it is not one."""
    try:
        return [UUID(bytes=job_id) for job_id in WakeUp.FromString(body).job_ids]
    except (DecodeError, ValueError):
        log.error("a message of %d bytes that is no wake-up was dropped", len(body))
        return []
