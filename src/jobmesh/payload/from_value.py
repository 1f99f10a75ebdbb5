"""A `google.protobuf.Value` as canonical JSON: sorted keys, whole numbers as integers."""

from __future__ import annotations

import math
import re
from typing import Any

import msgspec
from google.protobuf.struct_pb2 import Value

from jobmesh.errors import InvalidField
from jobmesh.payload.content import FIRST_INEXACT, MAX_NESTING

encode_sorted = msgspec.json.Encoder(order="sorted").encode

_PLAIN_KEY = re.compile(r"[A-Za-z0-9_-]{1,50}")
_SHOWN_KEY = 50


class _Refused(Exception):
    """A value that cannot be taken; the path to it is completed on the way out."""

    def __init__(self, why: str) -> None:
        self.why = why
        self.path = ""

    def within(self, step: str) -> _Refused:
        self.path = step + self.path
        return self


def canonical_json(value: Value, field: str) -> bytes:
    """The value as canonical UTF-8 JSON.

    :raises InvalidField: with the path below ``field``, for numbers that a double may not hold
        exactly, for values that were left out, and for nesting beyond the limit.
    """
    try:
        return encode_sorted(_plain(value, MAX_NESTING))
    except _Refused as refused:
        raise InvalidField(field + refused.path, refused.why) from None


def _plain(value: Value, levels: int) -> Any:
    kind = value.WhichOneof("kind")
    if kind == "string_value":
        return value.string_value
    if kind == "number_value":
        return _number(value.number_value)
    if kind == "struct_value":
        return _object(value, levels)
    if kind == "list_value":
        return _array(value, levels)
    if kind == "bool_value":
        return value.bool_value
    if kind == "null_value":
        return None
    raise _Refused("is not set")


def _number(number: float) -> int | float:
    if not math.isfinite(number):
        raise _Refused("is not a number that JSON has")
    if not number.is_integer():
        return number
    if abs(number) >= FIRST_INEXACT:
        raise _Refused(
            "is a whole number of 2^53 or more, which `json` may not hold exactly; "
            "send the payload as `data` (JSON text as bytes) instead"
        )
    return int(number)


def _object(value: Value, levels: int) -> dict[str, Any]:
    if not levels:
        raise _Refused(f"is nested more than {MAX_NESTING} levels deep")
    plain = {}
    for key, item in value.struct_value.fields.items():
        try:
            plain[key] = _plain(item, levels - 1)
        except _Refused as refused:
            raise refused.within(_step(key)) from None
    return plain


def _array(value: Value, levels: int) -> list[Any]:
    if not levels:
        raise _Refused(f"is nested more than {MAX_NESTING} levels deep")
    plain = []
    for index, item in enumerate(value.list_value.values):
        try:
            plain.append(_plain(item, levels - 1))
        except _Refused as refused:
            raise refused.within(f"[{index}]") from None
    return plain


def _step(key: str) -> str:
    if _PLAIN_KEY.fullmatch(key):
        return f".{key}"
    return f"[{key[:_SHOWN_KEY]!r}]"
