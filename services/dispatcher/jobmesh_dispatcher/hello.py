"""How a runner introduces itself."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from uuid import UUID

from jobmesh.errors import InvalidField
from jobmesh.v1 import runner_service_pb2 as pb

HELLO_SECONDS = 10.0
MAX_SLOTS = 10_000
MAX_TYPES = 1000


async def read_hello(requests: AsyncIterator[pb.WorkRequest]) -> pb.Hello:
    """The first message. Raises `InvalidField`."""
    try:
        async with asyncio.timeout(HELLO_SECONDS):
            first = await anext(aiter(requests))
    except (TimeoutError, StopAsyncIteration):
        raise InvalidField("hello", "must be the first message") from None
    hello = first.hello
    if not 1 <= hello.slots <= MAX_SLOTS:
        raise InvalidField("hello.slots", f"must be 1 to {MAX_SLOTS}")
    if not 0 <= hello.prefetch <= MAX_SLOTS:
        raise InvalidField("hello.prefetch", f"must be 0 to {MAX_SLOTS}")
    if not hello.types or len(hello.types) > MAX_TYPES:
        raise InvalidField("hello.types", f"must be 1 to {MAX_TYPES} types")
    if not 1 <= len(hello.runner_id) <= 200:
        raise InvalidField("hello.runner_id", "must have 1 to 200 characters")
    try:
        UUID(hello.session_id)
    except ValueError:
        raise InvalidField("hello.session_id", "must be a UUID") from None
    return hello
