"""``python -m examples.flights.demo``: exits with 0 only if everything was as it should be."""

from __future__ import annotations

import argparse
import asyncio
import shutil
import signal
import sys
from contextlib import suppress
from pathlib import Path

from rich.markup import escape

import jobmesh
from examples.flights.database import connected
from examples.flights.demo.failure import DemoFailed, require
from examples.flights.demo.jobs import import_through_a_kill, write_report
from examples.flights.demo.mesh import REPLICAS, REPOSITORY, Mesh, running_mesh
from examples.flights.demo.screen import Screen
from jobmesh.dev.errors import DevError

ROWS = 336_776
DIRECTORY = REPOSITORY / "build" / "demo"
TIME_LIMIT = 170.0
"""Seconds for the whole demo."""


async def demo(screen: Screen, directory: Path) -> None:
    """Run it all, keeping everything in `directory`.

    :raises DemoFailed: if anything differs from what the demo claims.
    """
    prepare(directory)
    report = directory / "report.html"
    screen.step("starting " + ", ".join(f"{n} × {name}" for name, n in REPLICAS.items()))
    async with running_mesh(directory) as mesh:
        screen.step(f"the mesh serves at {mesh.gateway}")
        async with jobmesh.connect(mesh.gateway) as client:
            await import_through_a_kill(client, mesh, screen)
            await count_rows(mesh, screen)
            await write_report(client, report, screen)
        screen.step("stopping the mesh")
    screen.step(f"[green]done:[/] open {shown(report)}")


def shown(path: Path) -> Path:
    """As a person in the repository would write it."""
    return path.relative_to(REPOSITORY) if path.is_relative_to(REPOSITORY) else path


def prepare(directory: Path) -> None:
    """Remove what an earlier demo left, and nothing else."""
    directory.mkdir(parents=True, exist_ok=True)
    shutil.rmtree(directory / "mesh", ignore_errors=True)
    for name in ("mesh.log", "ready.json", "report.html"):
        (directory / name).unlink(missing_ok=True)


async def count_rows(mesh: Mesh, screen: Screen) -> None:
    async with connected(mesh.flights_dsn) as connection:
        count, distinct = await connection.fetchrow(
            "SELECT count(*), count(DISTINCT line) FROM flights"
        )
    require(count == distinct == ROWS, f"{count} rows, {distinct} distinct, instead of {ROWS}")
    screen.step(f"[green]{distinct}[/] distinct rows in the database, as in the file")


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="demo", description="Import flights through a kill.")
    parser.add_argument(
        "--directory", type=Path, default=DIRECTORY, help="for logs, data and the report"
    )
    return parser.parse_args()


async def main(directory: Path) -> int:
    screen = Screen()
    task = asyncio.current_task()
    assert task is not None
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
    try:
        async with asyncio.timeout(TIME_LIMIT):
            await demo(screen, directory)
    except TimeoutError:
        screen.step(f"[bold red]failed:[/] not done after {TIME_LIMIT:.0f} s")
    except (DemoFailed, DevError, jobmesh.JobmeshError, jobmesh.JobNotSucceeded) as failure:
        screen.step(f"[bold red]failed:[/] {escape(str(failure))}")
    else:
        return 0
    screen.step(f"what the services said: {shown(directory)}/mesh.log and mesh/logs")
    return 1


if __name__ == "__main__":
    with suppress(KeyboardInterrupt, asyncio.CancelledError):
        sys.exit(asyncio.run(main(arguments().directory.absolute())))
    sys.exit(130)
