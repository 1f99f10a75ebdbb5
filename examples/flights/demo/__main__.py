"""``python -m examples.flights.demo``: exits with 0 only if everything was as it should be."""

from __future__ import annotations

import asyncio
import shutil
import signal
import sys
from contextlib import suppress
from pathlib import Path

import jobmesh
from examples.flights.database import connected
from examples.flights.demo.failure import DemoFailed, require
from examples.flights.demo.jobs import import_through_a_kill, write_report
from examples.flights.demo.mesh import REPLICAS, REPOSITORY, Mesh, running_mesh
from examples.flights.demo.screen import Screen

ROWS = 336_776
DIRECTORY = REPOSITORY / "build" / "demo"
REPORT = DIRECTORY / "report.html"
TIME_LIMIT = 170.0
"""Seconds for the whole demo."""


async def demo(screen: Screen) -> None:
    """Run it all.

    :raises DemoFailed: if anything differs from what the demo claims.
    """
    prepare(DIRECTORY)
    screen.step("starting " + ", ".join(f"{n} {name}" for name, n in REPLICAS.items()))
    async with running_mesh(DIRECTORY) as mesh:
        screen.step(f"the mesh serves at {mesh.gateway}")
        async with jobmesh.connect(mesh.gateway) as client:
            await import_through_a_kill(client, mesh, screen)
            await count_rows(mesh, screen)
            await write_report(client, REPORT, screen)
        screen.step("stopping the mesh")
    screen.step(f"[green]done:[/] open {REPORT.relative_to(REPOSITORY)}")


def prepare(directory: Path) -> None:
    shutil.rmtree(directory, ignore_errors=True)
    directory.mkdir(parents=True)


async def count_rows(mesh: Mesh, screen: Screen) -> None:
    async with connected(mesh.flights_dsn) as connection:
        count, distinct = await connection.fetchrow(
            "SELECT count(*), count(DISTINCT line) FROM flights"
        )
    require(count == distinct == ROWS, f"{count} rows, {distinct} distinct, instead of {ROWS}")
    screen.step(f"[green]{distinct}[/] distinct rows in the database, as in the file")


async def main() -> int:
    screen = Screen()
    task = asyncio.current_task()
    assert task is not None
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
    try:
        async with asyncio.timeout(TIME_LIMIT):
            await demo(screen)
    except TimeoutError:
        screen.step(f"[bold red]failed:[/] not done after {TIME_LIMIT:.0f} s")
    except (DemoFailed, jobmesh.JobmeshError, jobmesh.JobFailed) as failure:
        screen.step(f"[bold red]failed:[/] {failure}")
    else:
        return 0
    screen.step(f"what the services said: {DIRECTORY.relative_to(REPOSITORY)}/mesh.log")
    return 1


if __name__ == "__main__":
    with suppress(KeyboardInterrupt, asyncio.CancelledError):
        sys.exit(asyncio.run(main()))
    sys.exit(130)
