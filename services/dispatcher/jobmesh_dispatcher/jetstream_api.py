"""The few calls of JetStream's API whose answers are needed in full.

Reference: https://docs.nats.io/reference/reference-protocols/nats_api_reference
"""

from __future__ import annotations

import base64
from datetime import datetime
from typing import TYPE_CHECKING, NamedTuple

import msgspec
from nats.errors import Error as NatsError

from jobmesh.errors import BackendUnavailable

if TYPE_CHECKING:
    from jobmesh_dispatcher.broker import Broker

TIMEOUT_SECONDS = 5.0


class StoredMessage(NamedTuple):
    """A message of a stream; `time` is when the broker stored it, by its clock."""

    subject: str
    seq: int
    time: datetime
    data: bytes


class _Message(msgspec.Struct):
    subject: str
    seq: int
    time: datetime
    data: str = ""


class _Got(msgspec.Struct):
    message: _Message | None = None


class _Config(msgspec.Struct):
    created: datetime | None = None
    num_pending: int = 0
    num_ack_pending: int = 0


async def head_of(broker: Broker, stream: str, subject: str) -> StoredMessage | None:
    """The oldest message of a subject; None if there is none. Raises `BackendUnavailable`."""
    return await _get(broker, stream, {"seq": 1, "next_by_subj": subject})


async def message_at(broker: Broker, stream: str, seq: int) -> StoredMessage | None:
    """A message by its number; None if it is gone. Raises `BackendUnavailable`."""
    return await _get(broker, stream, {"seq": seq})


async def delete_message(broker: Broker, stream: str, seq: int) -> None:
    """Take a message out of its stream. Raises `BackendUnavailable`."""
    await _request(broker, f"STREAM.MSG.DELETE.{stream}", {"seq": seq, "no_erase": True})


async def created_time(broker: Broker, stream: str) -> datetime | None:
    """When the stream was made; None if there is none. Raises `BackendUnavailable`."""
    return msgspec.json.decode(
        await _request(broker, f"STREAM.INFO.{stream}", {}), type=_Config
    ).created


async def is_drained(broker: Broker, stream: str, consumer: str) -> bool:
    """Whether a consumer has delivered all there is, and awaits no acknowledgement.

    Also if there is none. Raises `BackendUnavailable`.
    """
    info = msgspec.json.decode(
        await _request(broker, f"CONSUMER.INFO.{stream}.{consumer}", {}), type=_Config
    )
    return info.created is not None and info.num_pending == 0 and info.num_ack_pending == 0


async def _get(broker: Broker, stream: str, request: dict[str, object]) -> StoredMessage | None:
    got = msgspec.json.decode(
        await _request(broker, f"STREAM.MSG.GET.{stream}", request), type=_Got
    ).message
    if got is None:
        return None
    return StoredMessage(got.subject, got.seq, got.time, base64.b64decode(got.data))


async def _request(broker: Broker, method: str, request: dict[str, object]) -> bytes:
    try:
        answer = await broker.client.request(
            f"$JS.API.{method}",
            msgspec.json.encode(request) if request else b"",
            timeout=TIMEOUT_SECONDS,
        )
    except (NatsError, TimeoutError, OSError) as error:
        raise BackendUnavailable("nats") from error
    return answer.data
