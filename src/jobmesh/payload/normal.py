"""The one form that payloads have inside the mesh."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import msgspec

from jobmesh.errors import InvalidField, PayloadTooLarge
from jobmesh.payload.content import (
    DEFAULT_LIMIT_BYTES,
    FIRST_INEXACT,
    JSON,
    MAX_NESTING,
    is_json,
    media_type_problem,
)
from jobmesh.payload.from_value import canonical_json, encode_sorted
from jobmesh.v1.job_pb2 import Payload

EMPTY = b"{}"


class Normal:
    """A payload as it is stored: ``data`` of ``content_type``.

    ``canonical()`` is the same for the same logical content, whichever form it was sent in.
    """

    __slots__ = ("_canonical", "content_type", "data")

    def __init__(
        self, data: bytes, content_type: str, canonical: Callable[[], bytes] | None = None
    ) -> None:
        self.data = data
        self.content_type = content_type
        self._canonical = canonical

    def canonical(self) -> bytes:
        """What two payloads have in common exactly if they mean the same."""
        return self.data if self._canonical is None else self._canonical()


def normalise(
    payload: Payload,
    field: str,
    *,
    limit: int = DEFAULT_LIMIT_BYTES,
    arguments: bool = True,
) -> Normal:
    """Check a payload and bring it into the one form.

    :param payload: as it was sent; it is not changed.
    :param field: its path in the request, for errors.
    :param limit: the most bytes that its content may have.
    :param arguments: JSON must be an object, of a handler's arguments; else it may be any value.
    :raises InvalidField: naming the field below ``field``, and the position of an error in JSON.
    :raises PayloadTooLarge: over ``limit``.
    """
    content_type = payload.content_type
    if problem := media_type_problem(content_type):
        raise InvalidField(f"{field}.content_type", problem)
    which = payload.WhichOneof("content")
    if which == "json":
        return _from_json(payload, field, limit, arguments)
    data = payload.data
    if len(data) > limit:
        raise PayloadTooLarge(f"{field}.data", len(data), limit)
    if not is_json(content_type):
        return Normal(data, content_type)
    return _from_data(data, f"{field}.data", arguments)


def _from_json(payload: Payload, field: str, limit: int, arguments: bool) -> Normal:
    if not is_json(payload.content_type):
        raise InvalidField(f"{field}.content_type", f"must be empty or {JSON} with `json`")
    if arguments and payload.json.WhichOneof("kind") != "struct_value":
        raise InvalidField(f"{field}.json", "must be an object of the handler's arguments by name")
    data = canonical_json(payload.json, f"{field}.json")
    if len(data) > limit:
        raise PayloadTooLarge(f"{field}.json", len(data), limit)
    return Normal(data, JSON)


def _from_data(data: bytes, field: str, arguments: bool) -> Normal:
    if not data:
        return Normal(EMPTY, JSON)
    try:
        content = _decode(data)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise InvalidField(field, f"is not valid JSON: {error}") from None
    except RecursionError:
        raise InvalidField(field, _TOO_DEEP) from None
    if arguments and not isinstance(content, dict):
        raise InvalidField(
            field, "must be a JSON object of the handler's arguments by name, from byte 0 on"
        )
    # As many brackets as levels at the least: most payloads need no second look.
    if data.count(b"{") + data.count(b"[") > MAX_NESTING and _nesting(content) > MAX_NESTING:
        raise InvalidField(field, _TOO_DEEP)
    return Normal(data, JSON, lambda: encode_sorted(content))


_TOO_DEEP = f"is nested more than {MAX_NESTING} levels deep"


def _number(text: str) -> int | float:
    """Whole numbers as integers, as they come out of a `json` payload."""
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(f"the number {text[:20]} is out of range")
    return int(number) if number.is_integer() and abs(number) < FIRST_INEXACT else number


_decode = msgspec.json.Decoder(float_hook=_number).decode


def _nesting(content: Any) -> int:
    """Levels of arrays and objects, counted level by level: recursion would have its own limit."""
    levels = 0
    level = [content]
    while level := [item for item in level if isinstance(item, dict | list)]:
        levels += 1
        level = [
            inner for item in level for inner in (item.values() if isinstance(item, dict) else item)
        ]
    return levels
