"""What a payload may be: its media type, its size, its numbers."""

from __future__ import annotations

import re

JSON = "application/json"
DEFAULT_LIMIT_BYTES = 1 << 20
MAX_LIMIT_BYTES = 4 << 20
MAX_NESTING = 100  # arrays and objects within each other
# The first whole number whose double may stand for another one, too.
FIRST_INEXACT = 2**53

_MEDIA_TYPE = re.compile(r"[!#$&^_.+a-z0-9-]+/[!#$&^_.+a-z0-9-]+( *;[ -~]*)?", re.IGNORECASE)
_MAX_MEDIA_TYPE = 200


def is_json(content_type: str) -> bool:
    """Whether the media type, its parameters aside, is JSON; an empty one is."""
    if not content_type or content_type == JSON:
        return True
    return content_type.partition(";")[0].strip().lower() == JSON


def media_type_problem(content_type: str) -> str:
    """What is wrong with a media type; empty if nothing."""
    if len(content_type) > _MAX_MEDIA_TYPE:
        return f"has {len(content_type)} characters, at most {_MAX_MEDIA_TYPE} are allowed"
    if content_type and not _MEDIA_TYPE.fullmatch(content_type):
        return "must be a media type like application/json"
    return ""
