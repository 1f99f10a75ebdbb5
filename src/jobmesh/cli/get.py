"""``jobmesh get``."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from jobmesh.cli.connection import calls_mesh, connection_options, wants_json

if TYPE_CHECKING:
    from jobmesh.client import Client


@click.command()
@click.argument("job_id", metavar="ID")
@connection_options
@calls_mesh
async def get(mesh: Client, job_id: str) -> None:
    """Show a job as it stands, with its arguments, result and history."""
    from jobmesh.cli.job_sheet import print_job
    from jobmesh.cli.json_form import json_form
    from jobmesh.cli.output import print_json

    job = await mesh.job(job_id).get()
    if wants_json():
        print_json(json_form(job.proto))
    else:
        print_job(job)
