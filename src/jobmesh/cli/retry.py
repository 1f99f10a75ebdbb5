"""``jobmesh retry``."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from jobmesh.cli.connection import calls_mesh, connection_options

if TYPE_CHECKING:
    from jobmesh.client import Client


@click.command()
@click.argument("job_ids", metavar="ID...", nargs=-1, required=True)
@connection_options
@calls_mesh
async def retry(mesh: Client, job_ids: tuple[str, ...]) -> int:
    """Queue ended jobs again, with all their attempts before them."""
    from jobmesh.cli.each import each

    return await each(job_ids, lambda job_id: mesh.job(job_id).retry())
