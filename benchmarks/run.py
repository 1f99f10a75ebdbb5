"""Run the measures, round by round."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Collection
from contextlib import asynccontextmanager
from functools import partial

import asyncpg

from benchmarks import measures
from benchmarks.figures import Figure
from benchmarks.floors.unary import bare_server
from benchmarks.measures import Bench
from benchmarks.mesh import Mesh, mesh, servers
from benchmarks.scale import Scale
from jobmesh.channels import open_channel

TIMEOUT = 60.0
JOB_SERVICE = "jobmesh.v1.JobService"


async def run(scale: Scale, only: Collection[str], say: Callable[[str], None]) -> list[Figure]:
    """All figures; ``only`` names the measures, all of them if empty."""
    chosen = [make() for make in measures.MEASURES]
    chosen = [measure for measure in chosen if not only or measure.name in only]
    async with servers() as backends, mesh(backends) as made, _bench(made, scale) as bench:
        for number in range(1, scale.rounds + 1):
            for measure in chosen:
                say(f"round {number} of {scale.rounds}: {measure.name}")
                await measure.round(bench)
    figures = [figure for measure in chosen for figure in measure.figures()]
    return figures + measures.memory_figures(made.peaks)


@asynccontextmanager
async def _bench(made: Mesh, scale: Scale) -> AsyncIterator[Bench]:
    ports, root = made.servers.ports, made.servers.root
    connection = await asyncpg.connect(made.dsn, timeout=TIMEOUT, command_timeout=TIMEOUT)
    try:
        async with open_channel([made.address], JOB_SERVICE) as channel:
            await channel.channel_ready()
            bare = partial(bare_server, ports.take(), root / "unary.log")
            yield Bench(made, channel, connection, bare, scale)
    finally:
        await connection.close(timeout=TIMEOUT)
