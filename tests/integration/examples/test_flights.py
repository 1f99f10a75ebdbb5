"""The import and the report on a real PostgreSQL."""

from __future__ import annotations

import asyncio
import statistics
import zipfile
from collections.abc import AsyncIterator
from contextlib import aclosing
from itertools import islice
from pathlib import Path

import asyncpg
import pytest
from asyncpg.exceptions import InterfaceError, PostgresError

from examples.flights import report
from examples.flights.database import Connection, connected
from examples.flights.load import Loaded, load, load_airlines, load_batch
from examples.flights.source import COLUMNS, BadSource, FlightsFile, Row, airlines, flights_file
from tests.support.servers import TestPostgres

ROWS = 2_500
COUNT = "SELECT count(*), count(DISTINCT line) FROM flights"


@pytest.fixture
async def connection(dsn: str) -> AsyncIterator[Connection]:
    async with connected(dsn) as connection:
        yield connection


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> FlightsFile:
    """The first flights of the real file."""
    whole = flights_file()
    path = tmp_path_factory.mktemp("source") / "flights.zip"
    with zipfile.ZipFile(whole.path) as archive, archive.open("flights.csv") as lines:
        first = b"".join(islice(lines, ROWS + 1))
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("flights.csv", first)
    return FlightsFile(path)


async def loaded(
    connection: Connection, source: FlightsFile, start: int, size: int
) -> list[Loaded]:
    return [batch async for batch in load(connection, source, start, size)]


async def test_every_row_arrives_once_with_its_values(
    connection: Connection, source: FlightsFile
) -> None:
    batches = await loaded(connection, source, 0, 400)
    assert [batch.next_row for batch in batches] == [400, 800, 1200, 1600, 2000, 2400, 2500]
    stored = await connection.fetch(f"SELECT line, {', '.join(COLUMNS)} FROM flights ORDER BY line")
    assert [tuple(row) for row in stored] == next(source.batches(0, ROWS))


async def test_a_replay_adds_nothing(dsn: str, source: FlightsFile) -> None:
    """As when the runner died after a commit and before its checkpoint."""
    async with connected(dsn) as first:
        await loaded(first, source, 0, 500)
    async with connected(dsn) as second:
        again = await loaded(second, source, 1000, 700)
        assert [batch.inserted for batch in again] == [0, 0, 0]
        assert tuple(await second.fetchrow(COUNT)) == (ROWS, ROWS)


async def test_a_killed_import_goes_on_from_what_it_was_told(
    dsn: str, source: FlightsFile, postgres: TestPostgres
) -> None:
    async with connected(dsn) as first:
        checkpoint = await killed_after_two_batches(first, source, postgres.dsn("postgres"))
    assert checkpoint == 600
    async with connected(dsn) as second:
        assert await second.fetchval("SELECT count(*) FROM flights") == checkpoint
        await loaded(second, source, checkpoint, 300)
        assert tuple(await second.fetchrow(COUNT)) == (ROWS, ROWS)


async def killed_after_two_batches(
    connection: Connection, source: FlightsFile, maintenance: str
) -> int:
    pid = connection.get_server_pid()
    next_row = 0
    async with aclosing(load(connection, source, 0, 300)) as batches:
        while next_row < 600:
            next_row = (await anext(batches)).next_row
        await terminate(maintenance, pid)
        with pytest.raises((PostgresError, InterfaceError, ConnectionError)):
            await anext(batches)
    return next_row


async def terminate(dsn: str, pid: int) -> None:
    killer = await asyncpg.connect(dsn, timeout=10, command_timeout=10)
    try:
        assert await killer.fetchval("SELECT pg_terminate_backend($1, 5000)", pid)
    finally:
        await killer.close(timeout=10)


async def test_a_batch_is_all_or_nothing(connection: Connection, source: FlightsFile) -> None:
    good = next(source.batches(0, 10))
    bad: Row = (11, 2013, 13, *good[0][3:])
    await loaded(connection, source, ROWS, 1)  # makes the staging table, loads nothing
    with pytest.raises(asyncpg.CheckViolationError):
        await load_batch(connection, [*good, bad])
    assert await connection.fetchval("SELECT count(*) FROM flights") == 0


async def test_several_handlers_may_find_no_database_at_once(dsn: str) -> None:
    async def use() -> int:
        async with connected(dsn) as connection:
            return int(await connection.fetchval("SELECT count(*) FROM flights"))

    assert await asyncio.gather(*(use() for _ in range(6))) == [0] * 6


async def test_the_report_agrees_with_the_file(connection: Connection, source: FlightsFile) -> None:
    await load_airlines(connection, airlines())
    await loaded(connection, source, 0, ROWS)
    flights = [dict(zip(COLUMNS, row[1:], strict=True)) for row in next(source.batches(0, ROWS))]
    delays = [flight["arr_delay"] for flight in flights if isinstance(flight["arr_delay"], int)]

    totals = await report.totals(connection)
    assert (totals.flights, totals.arrived) == (ROWS, len(delays))
    assert totals.cancelled == sum(flight["dep_time"] is None for flight in flights)
    assert totals.late == sum(delay > 15 for delay in delays)
    assert totals.mean_delay == pytest.approx(statistics.mean(delays))

    carriers = await report.carriers(connection)
    assert sum(carrier.flights for carrier in carriers) == ROWS
    assert {carrier.name for carrier in carriers} <= {name for _, name in airlines()}
    united = next(carrier for carrier in carriers if carrier.carrier == "UA")
    uas = [f["arr_delay"] for f in flights if f["carrier"] == "UA"]
    assert united.mean_delay == pytest.approx(statistics.mean(d for d in uas if isinstance(d, int)))
    assert (await report.delays(connection))["UA", 1] == pytest.approx(united.mean_delay)
    (january,) = await report.months(connection)
    assert (january.month, january.flights) == (1, ROWS)


async def test_there_is_no_report_on_nothing(connection: Connection) -> None:
    with pytest.raises(report.NothingToReport):
        await report.totals(connection)


async def test_a_bad_line_stops_the_import_where_it_stands(
    connection: Connection, tmp_path: Path
) -> None:
    with zipfile.ZipFile(tmp_path / "bad.zip", "w") as archive:
        archive.writestr("flights.csv", ",".join(COLUMNS) + "\n2013,1\n")
    with pytest.raises(BadSource, match="line 1"):
        await loaded(connection, FlightsFile(tmp_path / "bad.zip"), 0, 10)
