"""Many jobs for people: a line each."""

from __future__ import annotations

from collections.abc import Sequence

import click

from jobmesh.cli.json_form import json_form
from jobmesh.cli.output import Column, print_rows
from jobmesh.cli.words import age, progress, why
from jobmesh.client import JobInfo

COLUMNS: list[Column[JobInfo]] = [
    Column("ID", lambda job: job.id),
    Column("TYPE", lambda job: job.type),
    Column("QUEUE", lambda job: job.queue),
    Column("STATE", lambda job: job.state),
    Column("ATTEMPT", lambda job: job.attempt or ""),
    Column("AGE", lambda job: age(job.create_time)),
    Column("PROGRESS", lambda job: "" if job.done else progress(job.progress)),
    Column("WHY", why),
]


def print_jobs(jobs: Sequence[JobInfo]) -> None:
    """Print the jobs, or that there are none."""
    if jobs:
        print_rows(jobs, COLUMNS, lambda job: json_form(job.proto))
    else:
        click.echo("no jobs", err=True)
