"""A connection to the test's own database."""

from __future__ import annotations

from collections.abc import AsyncIterator

import asyncpg
import pytest

from tests.support.job_rows import Connection


@pytest.fixture
async def connection(database: str) -> AsyncIterator[Connection]:
    """One connection, outside of a transaction."""
    connected = await asyncpg.connect(database, timeout=10, command_timeout=20)
    try:
        yield connected
    finally:
        await connected.close(timeout=5)
