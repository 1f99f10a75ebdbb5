"""Messages of the contract as JSON for programs.

As in protobuf's own JSON, with field names of the contract, except where that is awkward to work
with: 64-bit numbers are numbers, enums have their short names (``QUEUED``), payloads are the values
they hold. Empty texts, lists, maps and unset messages are left out; numbers and booleans are not.
"""

from __future__ import annotations

import base64
from typing import Any

from google.protobuf.message import Message

from jobmesh.client.states import short_name
from jobmesh.client.values import JSON, decode_payload
from jobmesh.v1 import job_pb2

_STAMPS = ("google.protobuf.Timestamp", "google.protobuf.Duration")


def json_form(message: Message) -> Any:
    """The message as values that ``json.dumps`` takes."""
    if isinstance(message, job_pb2.Payload):
        return _payload(message)
    if message.DESCRIPTOR.full_name in _STAMPS:
        return message.ToJsonString()  # type: ignore[attr-defined]
    form: dict[str, Any] = {}
    for field in message.DESCRIPTOR.fields:
        if field.has_presence and not message.HasField(field.name):
            continue
        value = _field(field, getattr(message, field.name))
        # What a message field holds was set, even if it is an empty text or list.
        if field.has_presence or value not in ("", [], {}):
            form[field.name] = value
    return form


# Descriptors are of one class or another, depending on protobuf's implementation.
def _field(field: Any, value: Any) -> Any:
    if field.message_type is not None and field.message_type.GetOptions().map_entry:
        item = field.message_type.fields_by_name["value"]
        return {str(key): _single(item, each) for key, each in value.items()}
    if field.is_repeated:
        return [_single(field, each) for each in value]
    return _single(field, value)


def _single(field: Any, value: Any) -> Any:
    if field.message_type is not None:
        return json_form(value)
    if field.enum_type is not None:
        return _enum(field.enum_type, value)
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    return value


def _enum(kind: Any, number: int) -> str:
    known = kind.values_by_number.get(number)
    return short_name(known.name) if known is not None else str(number)


def _payload(payload: job_pb2.Payload) -> Any:
    value = decode_payload(payload)
    if payload.content_type in ("", JSON):
        return value
    return {"content_type": payload.content_type, "data": base64.b64encode(value).decode()}
