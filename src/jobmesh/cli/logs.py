"""``jobmesh logs``."""

from __future__ import annotations

import sys
from contextlib import aclosing
from typing import TYPE_CHECKING

import click

from jobmesh.cli import interrupt
from jobmesh.cli.connection import calls_mesh, connection_options, mesh_options, wants_json
from jobmesh.cli.values import INT64

if TYPE_CHECKING:
    from jobmesh.client import Client, LogLine


@click.command()
@click.argument("job_id", metavar="ID")
@click.option("-f", "--follow", is_flag=True, help="Go on with new lines until the job ends.")
@click.option(
    "--after",
    type=INT64,
    default=0,
    metavar="N",
    help="Leave out lines up to this one.",
)
@connection_options
@calls_mesh
async def logs(mesh: Client, job_id: str, follow: bool, after: int) -> None:
    """Print what a job's handlers logged, over all its attempts."""
    if follow:
        interrupt.say_on_interrupt(
            f"the job goes on: jobmesh logs {job_id} --follow{mesh_options()}"
        )
    lines = mesh.job(job_id).logs(follow=follow, after_sequence=after)
    async with aclosing(lines):
        async for line in lines:
            _print(line)
            sys.stdout.flush()


def _print(line: LogLine) -> None:
    from jobmesh.cli.output import clean, print_json
    from jobmesh.cli.view_json import plain
    from jobmesh.cli.words import clock

    if wants_json():
        print_json(plain(line))
    else:
        level = line.level or "INFO"
        click.echo(f"{clock(line.time)} [{line.attempt}] {level:<7} {clean(line.message)}")
