"""One logical JSON payload, whichever way it came in and goes out.

Callers may send `json`, a `google.protobuf.Value` that any gRPC tool can write, or `data`, bytes.
Inside the mesh a payload is always `data` (`normalise`); a reader gets `json` back wherever a Value
holds the content exactly, else `data` (`present`). Numbers of a Value are doubles, so that whole
numbers from 2^53 on are refused on the way in, rather than stored as a neighbour of what was meant,
and stay `data` on the way out. What is read can always be sent again.
"""

from __future__ import annotations

from jobmesh.payload.content import DEFAULT_LIMIT_BYTES, JSON, MAX_LIMIT_BYTES, MAX_NESTING
from jobmesh.payload.from_value import canonical_json
from jobmesh.payload.normal import Normal, normalise
from jobmesh.payload.present import present, to_value

__all__ = [
    "DEFAULT_LIMIT_BYTES",
    "JSON",
    "MAX_LIMIT_BYTES",
    "MAX_NESTING",
    "Normal",
    "canonical_json",
    "normalise",
    "present",
    "to_value",
]
