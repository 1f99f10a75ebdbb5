"""Messages that were delivered as often as allowed.

They are found through the broker's advisories, which a stream keeps.

An advisory is a hint: one that is lost leaves its message in the stream, where its jobs are found
as ready with no wake-up under way.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING
from uuid import UUID, uuid5

import msgspec
from google.protobuf.message import DecodeError
from nats.errors import Error as NatsError
from nats.js.errors import Error as JetStreamError

from jobmesh.errors import BackendUnavailable
from jobmesh.v1.broker_pb2 import WakeUp
from jobmesh_dispatcher.broker import ADVISORIES, API_TIMEOUT_SECONDS, JOBS
from jobmesh_dispatcher.jetstream_api import StoredMessage, created_time, delete_message, message_at
from jobmesh_dispatcher.store.leadership import hold_epoch
from jobmesh_dispatcher.store.undelivered import charge

if TYPE_CHECKING:
    from asyncpg import Record
    from nats.aio.msg import Msg

    from jobmesh_dispatcher.after_commit import AfterCommit
    from jobmesh_dispatcher.broker import Broker
    from jobmesh_dispatcher.database import Connection, Database
    from jobmesh_dispatcher.store.outbox import OutboxMessage

log = logging.getLogger(__name__)

ADVISORIES_A_PASS = 100
FETCH_SECONDS = 0.2
NAMES = UUID("6a6f626d-6573-8000-8000-000000000000")


class _Advisory(msgspec.Struct):
    stream_seq: int = 0
    timestamp: datetime | None = None


class Undelivered:
    """Buries messages that cannot be delivered, and charges their jobs."""

    def __init__(self, database: Database, broker: Broker, after_commit: AfterCommit) -> None:
        self._database = database
        self._broker = broker
        self._after_commit = after_commit

    async def run(self, epoch: int) -> int:
        """Follow the advisories that wait.

        How many messages were buried. Raises `BackendUnavailable`.
        """
        try:
            advisories = await self._fetch()
            buried = 0
            for advisory in advisories:
                buried += await self._bury(epoch, advisory)
                await advisory.ack()
        except (NatsError, JetStreamError, OSError) as error:
            raise BackendUnavailable("nats") from error
        return buried

    async def _fetch(self) -> Sequence[Msg]:
        jetstream = self._broker.client.jetstream(timeout=API_TIMEOUT_SECONDS)
        subscription = await jetstream.pull_subscribe(
            ">", durable="dead-letters", stream=ADVISORIES
        )
        try:
            return await subscription.fetch(ADVISORIES_A_PASS, timeout=FETCH_SECONDS)
        except TimeoutError:
            return []
        finally:
            await subscription.unsubscribe()

    async def _bury(self, epoch: int, advisory: Msg) -> int:
        told = _read(advisory)
        seq = told.stream_seq
        message = await message_at(self._broker, JOBS, seq) if seq else None
        if message is None or (told.timestamp is not None and told.timestamp < message.time):
            # It is gone; or it is younger: of a stream that was made again, where numbers are, too.
            return 0
        made = await created_time(self._broker, JOBS)
        operation_id = uuid5(NAMES, f"{made}/{seq}")
        job_ids = _job_ids(message)

        async def act(connection: Connection) -> tuple[list[Record], list[OutboxMessage]]:
            await hold_epoch(connection, epoch)
            return await charge(connection, operation_id, message.subject.split(".")[2], job_ids)

        rows, messages = await self._database.run(act)
        self._after_commit.changed(rows, messages)
        await delete_message(self._broker, JOBS, seq)
        log.warning(
            "a wake-up of %d job(s) could not be delivered; %d of them died",
            len(job_ids),
            len(rows),
        )
        return 1


def _read(advisory: Msg) -> _Advisory:
    try:
        return msgspec.json.decode(advisory.data, type=_Advisory)
    except msgspec.DecodeError as error:
        log.warning("an advisory could not be read: %s", error)
        return _Advisory()


def _job_ids(message: StoredMessage) -> list[UUID]:
    try:
        return [UUID(bytes=job_id) for job_id in WakeUp.FromString(message.data).job_ids]
    except (DecodeError, ValueError):
        return []
