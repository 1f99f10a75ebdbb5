"""Telling gateways what happens to jobs that somebody watches, over core NATS.

Gateways announce the buckets of jobs that they watch, each second; events of other buckets are not
even made, so that a drain nobody watches costs nothing. Events may be lost: a gateway that sees a
gap in the revisions reads the history.
"""

from __future__ import annotations

import logging
import time
from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING
from uuid import UUID

from google.protobuf.message import DecodeError
from nats.errors import Error as NatsError

from jobmesh.errors import BackendUnavailable
from jobmesh.server.metrics import counter
from jobmesh.server.tasks import TaskOwner
from jobmesh.v1.broker_pb2 import EventBatch, WatchAnnouncement
from jobmesh.v1.job_pb2 import JobEvent, JobReason, JobState

if TYPE_CHECKING:
    from asyncpg import Record
    from nats.aio.msg import Msg

    from jobmesh_dispatcher.broker import Broker

log = logging.getLogger(__name__)

FORGET_SECONDS = 5.0
UNAWARE_SECONDS = 2.0
EVENTS_A_MESSAGE = 500
MAX_GATEWAYS = 1000
EVENTS = counter("jobmesh_events_published_total", "Events published for gateways.")


class Events:
    """Publishes events of the buckets that are wanted."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._gateways: dict[str, tuple[float, int]] = {}
        self._wanted = 0  # one bit a bucket
        self._listening_since = time.monotonic()
        self._owner = TaskOwner()
        self._subscribed = False
        broker.on_connect(self._subscribe)

    async def start(self) -> None:
        """Nothing to do before the broker is there."""

    async def stop(self) -> None:
        """Drop what is not published yet."""
        await self._owner.stop()

    def wants(self, job_id: UUID) -> bool:
        """Whether anybody watches jobs like this one."""
        return bool(self._wanted >> job_id.bytes[15] & 1) or self._may_be_unaware()

    def _may_be_unaware(self) -> bool:
        """Whether gateways may not have been heard yet: all is wanted then."""
        return time.monotonic() - self._listening_since < UNAWARE_SECONDS

    def states(self, rows: Iterable[Record], time_column: str = "end_time") -> None:
        """Tell of committed changes of state.

        Rows have job_id, revision, state, reason, attempt and the time.
        """
        if not self._wanted and not self._may_be_unaware():
            return
        self.publish([_state_event(row, time_column) for row in rows if self.wants(row["job_id"])])

    def publish(self, events: Sequence[JobEvent]) -> None:
        """Send events, which are of wanted buckets. Never waits, never fails."""
        if events and self._broker.connected:
            self._owner.spawn("events", self._publish(events))

    async def _publish(self, events: Sequence[JobEvent]) -> None:
        buckets: dict[int, list[JobEvent]] = defaultdict(list)
        for event in events:
            buckets[int(event.job_id[-2:], 16)].append(event)
        try:
            for bucket, batch in buckets.items():
                for start in range(0, len(batch), EVENTS_A_MESSAGE):
                    body = EventBatch(
                        events=batch[start : start + EVENTS_A_MESSAGE]
                    ).SerializeToString()
                    await self._broker.client.publish(f"jm.ev.{bucket}", body)
            EVENTS.inc(len(events))
        except (NatsError, OSError, BackendUnavailable) as error:
            log.warning("%d event(s) not published: %s", len(events), error)

    async def _subscribe(self) -> None:
        if not self._subscribed:
            await self._broker.subscribe("jm.watch", self._hear)
            self._subscribed = True

    async def _hear(self, message: Msg) -> None:
        try:
            announcement = WatchAnnouncement.FromString(message.data)
        except DecodeError:
            return
        if len(announcement.buckets) > 32 or len(self._gateways) >= MAX_GATEWAYS:
            return
        now = time.monotonic()
        buckets = int.from_bytes(announcement.buckets, "little")
        self._gateways[announcement.gateway_id] = (now, buckets)
        self._wanted = 0
        for gateway_id, (heard, wanted) in list(self._gateways.items()):
            if now - heard > FORGET_SECONDS:
                del self._gateways[gateway_id]
            else:
                self._wanted |= wanted


def _state_event(row: Record, time_column: str) -> JobEvent:
    event = JobEvent(job_id=str(row["job_id"]), revision=row["revision"])
    event.time.FromDatetime(row[time_column])
    change = event.state_changed
    change.revision = row["revision"]
    change.state = JobState.Value(f"JOB_STATE_{row['state']}")
    change.reason = JobReason.Value(f"JOB_REASON_{row['reason']}")
    change.attempt = row["attempt"]
    change.time.CopyFrom(event.time)
    return event
