"""``jobmesh attempts``."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

import click

from jobmesh.cli.connection import calls_mesh, connection_options

if TYPE_CHECKING:
    from jobmesh.client import Attempt, Client


@click.command()
@click.argument("job_id", metavar="ID")
@connection_options
@calls_mesh
async def attempts(mesh: Client, job_id: str) -> None:
    """Show every attempt of a job, the oldest first: who ran it, how long, how it ended."""
    from jobmesh.cli.output import Column, print_rows
    from jobmesh.cli.view_json import plain
    from jobmesh.cli.words import when

    columns: list[Column[Attempt]] = [
        Column("ATTEMPT", lambda attempt: attempt.attempt),
        Column("RUNNER", lambda attempt: attempt.runner_id),
        Column("OUTCOME", lambda attempt: attempt.outcome or "running"),
        Column("STARTED", lambda attempt: when(attempt.start_time)),
        Column("RAN FOR", _ran_for),
        Column("ERROR", lambda attempt: attempt.error),
    ]
    print_rows(await mesh.job(job_id).attempts(), columns, plain)


def _ran_for(attempt: Attempt) -> str:
    from jobmesh.cli.words import length

    if attempt.start_time is None:
        return ""
    return length((attempt.end_time or datetime.now(UTC)) - attempt.start_time)
