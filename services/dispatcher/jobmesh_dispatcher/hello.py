"""How a runner introduces itself."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from uuid import UUID

from jobmesh.errors import InvalidField
from jobmesh.v1.runner_service_pb2 import Hello, WorkRequest
from jobmesh.validation import Violations, check_id, check_name
from jobmesh_dispatcher.report_limits import storable_text

HELLO_SECONDS = 10.0
MAX_SLOTS = 10_000
MAX_TYPES = 1000
MAX_QUEUES = 1000
VERSION_CHARACTERS = 100


async def read_hello(requests: AsyncIterator[WorkRequest]) -> Hello:
    """The first message. Raises `InvalidField`."""
    try:
        async with asyncio.timeout(HELLO_SECONDS):
            first = await anext(aiter(requests))
    except (TimeoutError, StopAsyncIteration):
        raise InvalidField("hello", "must be the first message") from None
    check_hello(first.hello)
    return first.hello


def check_hello(hello: Hello) -> None:
    """Raise `InvalidField` unless it is as the contract says."""
    found = Violations()
    check_id(hello.runner_id, "hello.runner_id", found)
    _check_uuid(hello.session_id, "hello.session_id", found)
    if hello.namespace:
        check_name(hello.namespace, "hello.namespace", found)
    _check_names(hello.types, "hello.types", 1, MAX_TYPES, found)
    _check_names(hello.queues, "hello.queues", 0, MAX_QUEUES, found)
    if not 1 <= hello.slots <= MAX_SLOTS:
        found.add("hello.slots", f"must be 1 to {MAX_SLOTS}")
    if not 0 <= hello.prefetch <= MAX_SLOTS:
        found.add("hello.prefetch", f"must be 0 to {MAX_SLOTS}")
    for index, lease in enumerate(hello.held):
        _check_uuid(lease.job_id, f"hello.held[{index}].job_id", found)
    found.raise_any()
    hello.version = storable_text(hello.version, VERSION_CHARACTERS)


def _check_names(names: Sequence[str], path: str, least: int, most: int, found: Violations) -> None:
    if not least <= len(names) <= most:
        found.add(path, f"must be {least} to {most}")
        return
    for index, name in enumerate(names):
        check_name(name, f"{path}[{index}]", found)


def _check_uuid(text: str, path: str, found: Violations) -> None:
    try:
        UUID(text)
    except ValueError:
        found.add(path, "must be a UUID")
