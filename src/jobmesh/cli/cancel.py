"""``jobmesh cancel``."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from jobmesh.cli.connection import calls_mesh, connection_options

if TYPE_CHECKING:
    from jobmesh.client import Client


@click.command()
@click.argument("job_ids", metavar="ID...", nargs=-1, required=True)
@click.option("--reason", default="", metavar="TEXT", help="Why, for whoever looks at it later.")
@connection_options
@calls_mesh
async def cancel(mesh: Client, job_ids: tuple[str, ...], reason: str) -> int:
    """Cancel jobs: at once if they wait; if they run, their handlers are told to stop."""
    from jobmesh.cli.each import each

    return await each(job_ids, lambda job_id: mesh.job(job_id).cancel(reason))
