"""``jobmesh list``."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Any

import click

from jobmesh.cli.connection import calls_mesh, connection_options, wants_json
from jobmesh.cli.values import PAIR, TIME_OR_AGO
from jobmesh.states import State

if TYPE_CHECKING:
    from jobmesh.client import Client


@click.command("list")
@click.option("-q", "--queue", multiple=True, metavar="NAME", help="Of this queue. Repeatable.")
@click.option("-t", "--type", multiple=True, metavar="TYPE", help="Of this type. Repeatable.")
@click.option(
    "-s",
    "--state",
    multiple=True,
    help="In this state. Repeatable.",
    type=click.Choice(list(State), case_sensitive=False),
)
@click.option(
    "-l",
    "--label",
    "labels",
    type=PAIR,
    multiple=True,
    metavar="NAME=VALUE",
    help="With this label. Repeatable.",
)
@click.option("--runner", "runner_id", default="", metavar="NAME", help="Last run by it.")
@click.option("--schedule", "schedule_id", default="", metavar="ID", help="Made by it.")
@click.option("--parent", "parent_job_id", default="", metavar="ID", help="Belonging to this job.")
@click.option("--error-type", default="", metavar="NAME", help="Last failed with this error.")
@click.option(
    "--since",
    type=TIME_OR_AGO,
    metavar="TIME",
    help="Created at this time or later; 15m is 15 minutes ago.",
)
@click.option("--until", type=TIME_OR_AGO, metavar="TIME", help="Created before this time.")
@click.option("--oldest-first", is_flag=True, help="Instead of newest first.")
@click.option(
    "-n",
    "--limit",
    type=click.IntRange(min=1),
    default=50,
    show_default=True,
    help="How many at most.",
)
@click.option("--all", "everything", is_flag=True, help="However many there are.")
@connection_options
@calls_mesh
async def list_(
    mesh: Client,
    labels: tuple[tuple[str, str], ...],
    since: datetime | None,
    until: datetime | None,
    oldest_first: bool,
    limit: int,
    everything: bool,
    **criteria: Any,
) -> None:
    """List jobs, newest first."""
    jobs = mesh.list(
        order="oldest" if oldest_first else "newest",
        limit=None if everything else limit,
        labels=dict(labels),
        created_from=since,
        created_to=until,
        **criteria,
    )
    if wants_json():
        from jobmesh.cli.json_form import json_form
        from jobmesh.cli.output import print_json

        async for job in jobs:
            print_json(json_form(job.proto))
        return
    from jobmesh.cli.job_table import print_jobs

    print_jobs([job async for job in jobs])
