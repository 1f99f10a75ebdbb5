"""The handlers' database."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import suppress

import asyncpg
import pytest

from tests.support.servers import TestPostgres


@pytest.fixture
async def dsn(postgres: TestPostgres) -> AsyncIterator[str]:
    """Of a database that is not there yet."""
    yield postgres.dsn("flights")
    with suppress(asyncpg.exceptions.InvalidCatalogNameError):  # not every test makes it
        await postgres.drop("flights")
