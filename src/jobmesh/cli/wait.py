"""``jobmesh wait``."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from jobmesh.cli import exits, interrupt
from jobmesh.cli.connection import calls_mesh, connection_options, mesh_options, wants_json
from jobmesh.cli.values import DURATION

if TYPE_CHECKING:
    from jobmesh.client import Client


@click.command()
@click.argument("job_id", metavar="ID")
@click.option("--timeout", type=DURATION, metavar="DURATION", help="Give up after so long.")
@connection_options
@calls_mesh
async def wait(mesh: Client, job_id: str, timeout: float | None) -> int:
    """Wait until a job ends, and print its result.

    The exit code says how it ended: 0 it succeeded, 1 it failed, 3 it was cancelled, 4 it has not
    ended in time.
    """
    from jobmesh.cli.follow import EXIT_CODES, show_end
    from jobmesh.cli.json_form import json_form
    from jobmesh.cli.output import print_json

    interrupt.say_on_interrupt(f"the job goes on: jobmesh wait {job_id}{mesh_options()}")
    try:
        job = await mesh.job(job_id).wait(timeout)
    except TimeoutError as error:
        click.echo(f"jobmesh: {error}", err=True)
        return exits.TIMED_OUT
    if wants_json():
        print_json(json_form(job.proto))
        return EXIT_CODES[job.state]
    return show_end(job)
