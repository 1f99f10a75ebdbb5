"""What the report says, computed by the database."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from typing import Any

from examples.flights.database import Connection, statement

MONTHS = range(1, 13)


class NothingToReport(ValueError):
    """The table of flights is empty."""


@dataclass(frozen=True, slots=True)
class Totals:
    """All flights together. Delays are minutes at arrival; late is more than 15 of them."""

    flights: int
    cancelled: int
    arrived: int
    mean_delay: float
    late: int
    miles: int
    first_month: date
    last_month: date


@dataclass(frozen=True, slots=True)
class Carrier:
    carrier: str
    name: str
    flights: int
    cancelled: int
    arrived: int
    mean_delay: float
    late: int


@dataclass(frozen=True, slots=True)
class Month:
    month: int
    flights: int
    cancelled: int
    mean_delay: float


@dataclass(frozen=True, slots=True)
class Report:
    totals: Totals
    carriers: tuple[Carrier, ...]
    """The latest on average first."""
    months: tuple[Month, ...]
    delays: Mapping[tuple[str, int], float]
    """Mean delay by carrier and month; a pair that never arrived is absent."""

    def row(self, carrier: Carrier) -> list[float | None]:
        """The delays of a carrier from January to December."""
        return [self.delays.get((carrier.carrier, month)) for month in MONTHS]


def share(part: int, whole: int) -> float:
    """`part` of `whole` in percent; of nothing it is 0."""
    return 100 * part / whole if whole else 0.0


async def totals(connection: Connection) -> Totals:
    (row,) = await connection.fetch(statement("totals"))
    if row["flights"] == 0:
        raise NothingToReport("no flights have been imported")
    return Totals(**dict(row))


async def carriers(connection: Connection) -> tuple[Carrier, ...]:
    return tuple(Carrier(**dict(row)) for row in await rows(connection, "by_carrier"))


async def months(connection: Connection) -> tuple[Month, ...]:
    return tuple(Month(**dict(row)) for row in await rows(connection, "by_month"))


async def delays(connection: Connection) -> dict[tuple[str, int], float]:
    found = await rows(connection, "by_carrier_and_month")
    return {(row["carrier"], row["month"]): row["mean_delay"] for row in found}


async def rows(connection: Connection, query: str) -> Sequence[Mapping[str, Any]]:
    found: Sequence[Mapping[str, Any]] = await connection.fetch(statement(query))
    return found
