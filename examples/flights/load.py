"""Brings the flights into the database, batch by batch.

Each batch is one transaction keyed by line number, so that it may be replayed. Whoever calls
this remembers the row that it was told last, and starts there the next time.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from dataclasses import dataclass

from examples.flights.database import Connection, statement
from examples.flights.source import FlightsFile, Row

STAGE = "CREATE TEMPORARY TABLE batch (LIKE flights) ON COMMIT DELETE ROWS"


@dataclass(frozen=True, slots=True)
class Loaded:
    """A batch that is committed."""

    next_row: int
    """Where to go on (0 is the first flight)."""
    inserted: int
    """Rows that were not there before."""


async def load(
    connection: Connection, source: FlightsFile, start: int, batch_rows: int
) -> AsyncGenerator[Loaded, None]:
    """Load the rows of `source` from `start` on, and tell of each batch once it is committed."""
    await connection.execute(STAGE)
    batches = source.batches(start, batch_rows)
    next_row = start
    while batch := await asyncio.to_thread(next, batches, None):
        inserted = await load_batch(connection, batch)
        next_row += len(batch)
        yield Loaded(next_row, inserted)


async def load_batch(connection: Connection, batch: list[Row]) -> int:
    async with connection.transaction():
        await connection.copy_records_to_table("batch", records=batch)
        done = await connection.execute(statement("merge_batch"))
    return int(done.rsplit(" ", 1)[-1])  # as in "INSERT 0 2000"


async def load_airlines(connection: Connection, airlines: list[tuple[str, str]]) -> None:
    await connection.executemany(
        "INSERT INTO airlines (carrier, name) VALUES ($1, $2) "
        "ON CONFLICT (carrier) DO UPDATE SET name = excluded.name",
        airlines,
    )
