"""``jobmesh watch``."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from jobmesh.cli.connection import calls_mesh, connection_options
from jobmesh.cli.values import INT64

if TYPE_CHECKING:
    from jobmesh.client import Client


@click.command()
@click.argument("job_id", metavar="ID")
@click.option("--logs", is_flag=True, help="Print what the handler logs, too.")
@click.option(
    "--after-revision",
    type=INT64,
    default=0,
    metavar="N",
    help="Leave out changes of state up to this one.",
)
@connection_options
@calls_mesh
async def watch(mesh: Client, job_id: str, logs: bool, after_revision: int) -> int:
    """Follow a job until it ends; Ctrl-C leaves it running.

    The exit code says how it ended: 0 it succeeded, 1 it failed, 3 it was cancelled.
    """
    from jobmesh.cli.follow import follow

    return await follow(mesh.job(job_id), after_revision=after_revision, logs=logs)
