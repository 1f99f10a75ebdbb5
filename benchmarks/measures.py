"""What is measured, each in rounds that take the floor and ours one right after the other."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import ClassVar, Protocol

import asyncpg
import grpc.aio

from benchmarks.figures import Figure
from benchmarks.floors import nats, paced, postgres, unary
from benchmarks.mesh import Mesh
from benchmarks.ours import drain, firings, latency, limited, submits
from benchmarks.ours.requests import submission
from benchmarks.scale import Scale

MEGABYTE = 1_000_000
MEMORY_LIMIT = 150.0


@dataclass(frozen=True, slots=True)
class Bench:
    """A running mesh, and what reaches it."""

    mesh: Mesh
    channel: grpc.aio.Channel
    connection: asyncpg.Connection
    bare_server: Callable[[], AbstractAsyncContextManager[grpc.aio.Channel]]
    scale: Scale


class Measure(Protocol):
    """One group of figures."""

    name: ClassVar[str]

    async def round(self, bench: Bench) -> None:
        """Measure once; leaves no job behind."""

    def figures(self) -> list[Figure]:
        """What was measured, over all rounds."""


class Rows:
    """PostgreSQL's rows, to know how far its commits are from being the limit."""

    name: ClassVar[str] = "postgres"

    def __init__(self) -> None:
        self._inserts: list[float] = []
        self._claims: list[float] = []

    async def round(self, bench: Bench) -> None:
        inserts, claims = await postgres.inserts_and_claims(bench.mesh.dsn, bench.scale.rows)
        self._inserts.append(inserts)
        self._claims.append(claims)

    def figures(self) -> list[Figure]:
        return [
            Figure(name="PostgreSQL, bare: insert", unit="rows/s", ours=tuple(self._inserts)),
            Figure(name="PostgreSQL, bare: claim", unit="rows/s", ours=tuple(self._claims)),
        ]


class Backlog:
    """A backlog that is submitted in batches while nobody runs jobs, and then drained."""

    name: ClassVar[str] = "backlog"

    def __init__(self) -> None:
        self._submits: list[float] = []
        self._publishes: list[float] = []
        self._drains: list[float] = []
        self._pulls: list[float] = []

    async def round(self, bench: Bench) -> None:
        scale = bench.scale
        async with nats.work_queue(bench.mesh.servers.nats.url) as jetstream:
            self._publishes.append(await nats.publishes(jetstream, scale.publishes))
            self._submits.append(await submits.batched(bench.channel, scale.backlog, scale.batch))
            self._pulls.append(await nats.pulls(jetstream, scale.publishes))
        self._drains.append(await _drain(bench))

    def figures(self) -> list[Figure]:
        return [
            Figure(
                name="batch submit",
                unit="jobs/s",
                ours=tuple(self._submits),
                floor=tuple(self._publishes),
                floor_name="acked NATS publishes",
                least_ratio=0.2,
            ),
            Figure(
                name="drain of a backlog",
                unit="jobs/s",
                ours=tuple(self._drains),
                floor=tuple(self._pulls),
                floor_name="NATS pull + ack",
                least_ratio=0.25,
            ),
        ]


class Limited:
    """A queue with ``max_running``: its slots are what limits it."""

    name: ClassVar[str] = "limited"

    def __init__(self) -> None:
        self._rates: list[float] = []

    async def round(self, bench: Bench) -> None:
        await limited.submit(bench.channel, bench.scale.limited)
        self._rates.append(await _drain(bench))

    def figures(self) -> list[Figure]:
        name = f"queue that runs {limited.AT_ONCE} at a time"
        return [Figure(name=name, unit="jobs/s", ours=tuple(self._rates))]


class Singles:
    """Submits one by one, through gateway and dispatcher."""

    name: ClassVar[str] = "single"

    def __init__(self) -> None:
        self._submits: list[float] = []
        self._calls: list[float] = []

    async def round(self, bench: Bench) -> None:
        scale = bench.scale
        async with bench.bare_server() as channel:
            request = submission("bench.noop")
            self._calls.append(await unary.calls(channel, request, scale.calls, scale.in_flight))
        rate = await submits.one_by_one(bench.channel, scale.singles, scale.in_flight)
        self._submits.append(rate)
        async with bench.mesh.runner():
            await drain.empty(bench.connection, scale.drain_timeout)

    def figures(self) -> list[Figure]:
        return [
            Figure(
                name="single submits, in flight",
                unit="jobs/s",
                ours=tuple(self._submits),
                floor=tuple(self._calls),
                floor_name="unary calls",
                least_ratio=0.25,
            )
        ]


class Latency:
    """How soon a job starts when the mesh has little to do."""

    name: ClassVar[str] = "latency"

    def __init__(self) -> None:
        self._rounds: list[latency.StartLatencies] = []
        self._floors: list[list[float]] = []

    async def round(self, bench: Bench) -> None:
        scale = bench.scale
        async with bench.bare_server() as channel:
            request, dsn = submission("bench.begun"), bench.mesh.dsn
            pace = scale.latency_rate, scale.latency_seconds
            self._floors.append(await paced.two_calls_and_a_row(channel, dsn, request, *pace))
        async with bench.mesh.runner():
            # Connections, caches and plans are warm on a mesh that has run for a second.
            await latency.start_latencies(bench.channel, scale.latency_rate, 1.0)
            found = await latency.start_latencies(
                bench.channel, scale.latency_rate, scale.latency_seconds
            )
        self._rounds.append(found)

    def figures(self) -> list[Figure]:
        handler = [found.handler for found in self._rounds]
        recorded = [found.recorded for found in self._rounds]
        return [
            _milliseconds(
                "start latency p50 (submit → handler)", handler, 50, most=5.0, floors=self._floors
            ),
            _milliseconds("start latency p99 (submit → handler)", handler, 99),
            _milliseconds("start latency p50 (create_time → start_time)", recorded, 50),
            _milliseconds("start latency p99 (create_time → start_time)", recorded, 99),
        ]


class Firings:
    """How late schedules fire. Once, whatever the rounds: it takes about two minutes."""

    name: ClassVar[str] = "schedules"

    def __init__(self) -> None:
        self._spread: list[list[float]] = []
        self._burst: list[list[float]] = []

    async def round(self, bench: Bench) -> None:
        if self._spread:
            return
        scale, reach = bench.scale, (bench.channel, bench.connection)
        self._spread.append(await firings.spread(*reach, scale.schedules, scale.schedule_seconds))
        self._burst.append(await firings.burst(*reach, scale.burst))
        async with bench.mesh.runner():
            await drain.empty(bench.connection, scale.drain_timeout)

    def figures(self) -> list[Figure]:
        return [
            _milliseconds("firing lateness p50", self._spread, 50),
            _milliseconds("firing lateness p99", self._spread, 99, most=100.0),
            _milliseconds("firings of one second: the last", self._burst, 100, most=2000.0),
        ]


async def _drain(bench: Bench) -> float:
    """Let a runner do all that waits; jobs a second."""
    timeout = bench.scale.drain_timeout
    jobs = await drain.ready_backlog(bench.connection, timeout)
    mark = await bench.connection.fetchval("SELECT clock_timestamp()")
    async with bench.mesh.runner():
        await drain.empty(bench.connection, timeout)
    return await drain.rate_since(bench.connection, mark, jobs)


def _milliseconds(
    name: str,
    rounds: list[list[float]],
    percent: float,
    most: float | None = None,
    floors: Sequence[list[float]] = (),
) -> Figure:
    return Figure(
        name=name,
        unit="ms",
        ours=tuple(latency.percentile(values, percent) for values in rounds),
        floor=tuple(latency.percentile(values, percent) for values in floors),
        floor_name="two unary calls and a row",
        most=most,
    )


def memory_figures(peaks: dict[str, int]) -> list[Figure]:
    """The most memory that each service had, over everything that was measured."""
    return [
        Figure(
            name=f"peak memory: {service}", unit="MB", ours=(peak / MEGABYTE,), most=MEMORY_LIMIT
        )
        for service, peak in sorted(peaks.items())
    ]


MEASURES: tuple[type[Measure], ...] = (Rows, Backlog, Limited, Singles, Latency, Firings)
NAMES = tuple(measure.name for measure in MEASURES)
