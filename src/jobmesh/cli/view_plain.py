"""A watch as plain lines, where no person watches: in a pipe, a file, a CI log."""

from __future__ import annotations

import sys
from datetime import UTC, datetime
from typing import Self

import click

from jobmesh.cli.output import clean, pretty
from jobmesh.cli.words import clock, progress, took
from jobmesh.client import (
    Change,
    ChangesLost,
    CheckpointStored,
    Ended,
    Event,
    JobInfo,
    Logged,
    ProgressMade,
    Snapshot,
    State,
    StateChanged,
)


class PlainView:
    """One line an event, each with its time."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        """Nothing to give back."""

    def note(self, text: str) -> None:
        """Print what is no event."""
        click.echo(f"{clock(None)} {clean(text)}")
        sys.stdout.flush()

    def show(self, event: Event) -> None:
        """Print the event."""
        for line in lines(event):
            click.echo(line)
        sys.stdout.flush()


def lines(event: Event) -> list[str]:
    """What to say about an event."""
    match event:
        case Snapshot(job):
            return [f"{clock(None)} job {job.id} ({job.type})"]
        case StateChanged(change):
            return [f"{clock(change.time)} {state_line(change)}"]
        case ProgressMade(made):
            return [f"{clock(made.time)} {clean(progress(made))}"]
        case Logged(line):
            return [f"{clock(line.time)} {line.level or 'INFO'}: {clean(line.message)}"]
        case CheckpointStored(attempt, size):
            now = clock(datetime.now(UTC))
            return [f"{now} checkpoint of {size:,} bytes in attempt {attempt}"]
        case ChangesLost(first, last):
            return [f"(changes {first} to {last} are no longer kept)"]
        case Ended(job):
            return end_lines(job)


def state_line(change: Change) -> str:
    """E.g. ``RETRYING after attempt 1: FAILED``."""
    line = change.state.value
    if change.state is State.RUNNING:
        line += f" attempt {change.attempt}"
    elif change.attempt and change.state not in (State.SUCCEEDED, State.CANCELLED):
        line += f" after attempt {change.attempt}"
    # The reasons that only repeat the state say nothing.
    if change.reason and change.reason not in ("COMPLETED", "CANCELLED"):
        line += f": {change.reason}"
    return line


def end_lines(job: JobInfo) -> list[str]:
    """The result, or why there is none."""
    if job.state is State.SUCCEEDED:
        ran = f" (ran for {took(job)})" if took(job) else ""
        return [f"result{ran}: {pretty(job.result)}"]
    if job.error is not None:
        found = [f"error: {clean(str(job.error))}"]
        return [*found, clean(job.error.traceback.rstrip())] if job.error.traceback else found
    return [f"reason: {clean(job.cancel_reason)}"] if job.cancel_reason else []
