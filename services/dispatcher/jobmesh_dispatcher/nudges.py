"""Hints between dispatchers over core NATS. A lost one costs a second, never a job."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING
from uuid import UUID

from google.protobuf.message import DecodeError
from nats.errors import Error as NatsError

from jobmesh.errors import BackendUnavailable
from jobmesh.server.tasks import TaskOwner
from jobmesh.v1.broker_pb2 import CancelRequested, HeldTypes, Nudge, QueueChanged

if TYPE_CHECKING:
    from nats.aio.msg import Msg

    from jobmesh_dispatcher.broker import Broker

log = logging.getLogger(__name__)

SUBJECT = "jm.nudge"
TYPES_A_NUDGE = 1000


class Nudges:
    """Sends and hears hints. Set the callbacks before the broker starts."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._owner = TaskOwner()
        self._subscribed = False
        self.on_held: Callable[[Iterable[str]], None] = lambda types: None
        self.on_cancel: Callable[[UUID], None] = lambda session_id: None
        self.on_queue: Callable[[], None] = lambda: None
        broker.on_connect(self._subscribe)

    async def start(self) -> None:
        """Nothing to do before the broker is there."""

    async def stop(self) -> None:
        """Drop what is not sent yet."""
        await self._owner.stop()

    def held(self, types: Iterable[str]) -> None:
        """Jobs of these types wait for runners."""
        self._send(Nudge(held_types=HeldTypes(types=list(types)[:TYPES_A_NUDGE])))

    def cancel(self, job_id: UUID, session_id: UUID) -> None:
        """A handler has to be stopped."""
        self._send(Nudge(cancel=CancelRequested(job_id=str(job_id), session_id=str(session_id))))

    def queue(self, namespace: str, name: str) -> None:
        """A queue was made or changed."""
        self._send(Nudge(queue=QueueChanged(namespace=namespace, name=name)))

    def _send(self, nudge: Nudge) -> None:
        if self._broker.connected:
            self._owner.spawn("nudge", self._publish(nudge))

    async def _publish(self, nudge: Nudge) -> None:
        try:
            await self._broker.client.publish(SUBJECT, nudge.SerializeToString())
        except (NatsError, OSError, BackendUnavailable) as error:
            log.warning("a nudge was not sent: %s", error)

    async def _subscribe(self) -> None:
        if not self._subscribed:
            await self._broker.subscribe(SUBJECT, self._hear)
            self._subscribed = True

    async def _hear(self, message: Msg) -> None:
        try:
            nudge = Nudge.FromString(message.data)
            kind = nudge.WhichOneof("nudge")
            if kind == "held_types":
                self.on_held(nudge.held_types.types)
            elif kind == "cancel":
                self.on_cancel(UUID(nudge.cancel.session_id))
            elif kind == "queue":
                self.on_queue()
        except (DecodeError, ValueError) as error:
            log.warning("a nudge could not be read: %s", error)
