"""Payloads on their way to a reader: as `json` where a Value holds the content exactly."""

from __future__ import annotations

import json
import math
from typing import Any, Never

from google.protobuf.struct_pb2 import ListValue, Struct, Value

from jobmesh.payload.content import FIRST_INEXACT, is_json
from jobmesh.v1.job_pb2 import Payload

# Receivers refuse messages nested more than 100 deep (C++, Java, Python): an object costs three
# messages (Value, Struct, its entry), an array two; what a Value is wrapped in takes the rest.
_MESSAGE_LEVELS = 85
_OBJECT_LEVELS = 3
_ARRAY_LEVELS = 2
# A Value may take ten times the bytes of its JSON, and far more memory; a job has three payloads
# and must fit a message.
_MAX_VALUE_BYTES = 4 << 20
_MAX_VALUES = 100_000


class _Inexact(ValueError):
    """A Value cannot hold it as it is."""


def present(payload: Payload) -> None:
    """Turn `data` into `json`, in place, where that loses nothing.

    It takes about a microsecond a value: for large payloads, run it in a thread.
    """
    if payload.WhichOneof("content") != "data" or not is_json(payload.content_type):
        return
    value = to_value(payload.data)
    if value is not None:
        payload.json.CopyFrom(value)


def to_value(data: bytes) -> Value | None:
    """JSON text as a Value; none if a Value does not hold it exactly, or it is no JSON.

    Not held: whole numbers from 2^53 on, names that come twice in an object, nesting that receivers
    refuse, text that is no Unicode, and content whose Value would be too large (100,000 values,
    4 MiB).
    """
    try:
        content = _decode(data)
        value = Value()
        _fill(value, content, _MESSAGE_LEVELS)
    except (ValueError, RecursionError):
        return None
    return value if value.ByteSize() <= _MAX_VALUE_BYTES else None


def _decode(data: bytes) -> Any:
    content = json.loads(data.decode(), object_pairs_hook=_object, parse_constant=_constant)
    # A value has a comma or a bracket before it: most payloads need no second look.
    marks = data.count(b",") + data.count(b"[") + data.count(b"{")
    if marks > _MAX_VALUES and _count(content) > _MAX_VALUES:
        raise _Inexact
    return content


def _count(content: Any) -> int:
    if isinstance(content, dict):
        return 1 + sum(map(_count, content.values()))
    if isinstance(content, list):
        return 1 + sum(map(_count, content))
    return 1


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    content = dict(pairs)
    if len(content) < len(pairs):
        raise _Inexact  # a name comes twice
    return content


def _constant(text: str) -> Never:
    raise _Inexact(text)  # NaN and infinities, which JSON does not have


def _fill(value: Value, content: Any, levels: int) -> None:
    if isinstance(content, str):
        value.string_value = content
    elif content is None:
        value.null_value = 0  # type: ignore[assignment]
    elif isinstance(content, bool):
        value.bool_value = content
    elif isinstance(content, dict):
        _fill_object(value.struct_value, content, levels - _OBJECT_LEVELS)
    elif isinstance(content, list):
        _fill_array(value.list_value, content, levels - _ARRAY_LEVELS)
    else:
        value.number_value = _exact(content)


def _exact(number: float) -> float:
    """The number, if it comes back as it is: as an integer if whole, or as a fraction."""
    whole = isinstance(number, int) or number.is_integer()
    if (whole and abs(number) >= FIRST_INEXACT) or not math.isfinite(number):
        raise _Inexact
    return float(number)


def _fill_object(struct: Struct, content: dict[str, Any], levels: int) -> None:
    if levels < 0:
        raise _Inexact
    struct.SetInParent()
    fields = struct.fields
    for key, item in content.items():
        _fill(fields[key], item, levels)


def _fill_array(array: ListValue, content: list[Any], levels: int) -> None:
    if levels < 0:
        raise _Inexact
    array.SetInParent()
    add = array.values.add
    for item in content:
        _fill(add(), item, levels)
