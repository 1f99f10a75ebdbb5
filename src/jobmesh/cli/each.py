"""Does the same to several jobs; one that refuses does not stop the others."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable

import click

from jobmesh.cli import exits
from jobmesh.cli.connection import wants_json
from jobmesh.cli.problem import explain
from jobmesh.client import JobInfo
from jobmesh.errors import JobmeshError, Unavailable


async def each(job_ids: Iterable[str], act: Callable[[str], Awaitable[JobInfo]]) -> int:
    """Act on every job and print its state after it; the exit code."""
    from jobmesh.cli.json_form import json_form
    from jobmesh.cli.output import print_json

    code = exits.OK
    for job_id in job_ids:
        try:
            job = await act(job_id)
        except Unavailable:
            raise  # of no use to ask for the others
        except JobmeshError as error:
            click.echo(f"{explain(error)}  ({job_id})", err=True)
            code = exits.CALL_FAILED
            continue
        if wants_json():
            print_json(json_form(job.proto))
        else:
            click.echo(f"{job.id} {job.state}")
    return code
