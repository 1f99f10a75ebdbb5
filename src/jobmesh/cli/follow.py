"""Follows a job to its end on the terminal, and turns the end into an exit code."""

from __future__ import annotations

import sys
from contextlib import aclosing
from typing import Protocol, Self

import click

from jobmesh.cli import exits, interrupt
from jobmesh.cli.connection import mesh_options, wants_json
from jobmesh.client import Ended, Event, JobHandle, JobInfo, State

EXIT_CODES = {
    State.SUCCEEDED: exits.OK,
    State.DEAD: exits.JOB_FAILED,
    State.CANCELLED: exits.JOB_CANCELLED,
}


class View(Protocol):
    """Shows events; a context manager, since a live one must give the terminal back."""

    def __enter__(self) -> Self: ...

    def __exit__(self, *error: object) -> None: ...

    def show(self, event: Event) -> None:
        """Show one event."""


async def follow(job: JobHandle, *, after_revision: int = 0, logs: bool = False) -> int:
    """Show what happens to the job until it ends; the exit code."""
    interrupt.say_on_interrupt(
        f"stopped watching; the job goes on. To go on: jobmesh watch {job.id}{mesh_options()}"
    )
    include = ("progress", "log") if logs else ("progress",)
    ended: JobInfo | None = None
    async with aclosing(job.watch(after_revision=after_revision, include=include)) as events:
        with choose_view() as view:
            async for event in events:
                view.show(event)
                if isinstance(event, Ended):
                    ended = event.job
    assert ended is not None
    return EXIT_CODES[ended.state]


def choose_view() -> View:
    """JSON lines for programs, a live line where a person watches, plain lines elsewhere."""
    if wants_json():
        from jobmesh.cli.view_json import JsonView

        return JsonView()
    if sys.stdout.isatty() and sys.stderr.isatty():
        from jobmesh.cli.view_live import LiveView

        return LiveView()
    from jobmesh.cli.view_plain import PlainView

    return PlainView()


def show_end(job: JobInfo) -> int:
    """Print how a terminal job ended: its result, or why there is none; the exit code."""
    from jobmesh.cli.output import clean, print_value
    from jobmesh.cli.words import why

    if job.state is State.SUCCEEDED:
        print_value(job.result)
    else:
        click.echo(f"job {job.id} is {job.state}: {clean(why(job))}", err=True)
    return EXIT_CODES[job.state]
