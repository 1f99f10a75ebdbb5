"""Payloads back to Python values."""

from __future__ import annotations

from typing import Any

import msgspec
from google.protobuf import struct_pb2

from jobmesh.v1 import job_pb2

JSON = "application/json"


def decode_payload(payload: job_pb2.Payload) -> Any:
    """What a payload holds: the JSON value, with whole numbers as ``int``, or other data as bytes.

    An empty payload is an empty JSON object.
    """
    which = payload.WhichOneof("content")
    if which == "json":
        return plain_value(payload.json)
    if payload.content_type not in ("", JSON):
        return payload.data
    return msgspec.json.decode(payload.data) if payload.data else {}


def plain_value(value: struct_pb2.Value) -> Any:
    """A ``google.protobuf.Value`` as Python's own types."""
    match value.WhichOneof("kind"):
        case "struct_value":
            # A map on the wire has no order; sorted, it looks the same every time.
            fields = sorted(value.struct_value.fields.items())
            return {key: plain_value(item) for key, item in fields}
        case "list_value":
            return [plain_value(item) for item in value.list_value.values]
        case "number_value":
            number = value.number_value
            return int(number) if number.is_integer() else number
        case "string_value":
            return value.string_value
        case "bool_value":
            return value.bool_value
        case _:
            return None
