"""Python values as JSON and back: arguments, results and checkpoints.

Dataclasses, msgspec structs, enums, dates, UUIDs, sets and the builtins are encoded as msgspec
does; pydantic models as their JSON. NaN and infinities, which JSON lacks, become ``null``.
"""

from __future__ import annotations

from typing import Any

import msgspec

CONTENT_TYPE = "application/json"
LIMIT_BYTES = 1 << 20
"""The default limit of a payload, a result and a checkpoint."""


class NotSerializable(TypeError):
    """The value has no JSON form."""


def encode(value: object, what: str = "value") -> bytes:
    """The value as UTF-8 JSON.

    :param what: what the message calls it, e.g. ``result``.
    :raises NotSerializable: it holds something without a JSON form, or itself.
    """
    try:
        return msgspec.json.encode(value, enc_hook=_encode_foreign)
    except RecursionError:
        raise NotSerializable(f"the {what} is nested too deeply, or holds itself") from None
    except Exception as error:  # of msgspec, or of a model that dumps itself
        raise NotSerializable(
            f"the {what} ({type(value).__name__}) cannot be written as JSON: {error}"
        ) from error


def encode_within(value: object, what: str, limit: int = LIMIT_BYTES) -> bytes:
    """As :func:`encode`, of at most ``limit`` bytes.

    :raises jobmesh.errors.PayloadTooLarge: it is longer.
    """
    data = encode(value, what)
    if len(data) > limit:
        from jobmesh.errors import PayloadTooLarge

        raise PayloadTooLarge(what, len(data), limit)
    return data


def decode(data: bytes) -> Any:
    """JSON as builtins; whole numbers are ``int``."""
    return msgspec.json.decode(data)


def decode_foreign(kind: type, value: object) -> object:
    """The hook of msgspec for types it does not know: pydantic models validate themselves."""
    validate = getattr(kind, "model_validate", None)
    if validate is None:
        raise TypeError(f"{kind!r} cannot be decoded from JSON")
    try:
        return validate(value)
    except ValueError as error:
        raise _told_shortly(error) from None


def _told_shortly(error: ValueError) -> ValueError:
    """Pydantic's first complaint in the form of msgspec's, which names the field and no value."""
    listed = getattr(error, "errors", None)
    if not callable(listed):
        return error
    first, *others = listed()
    more = f" (and {len(others)} more)" if others else ""
    path = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in first["loc"])
    return ValueError(f"{first['msg']}{more} - at `${path}`")


def _encode_foreign(value: object) -> object:
    dump = getattr(value, "model_dump", None)
    if dump is None:
        raise TypeError(f"objects of type {type(value).__name__} have no JSON form")
    return dump(mode="json")
