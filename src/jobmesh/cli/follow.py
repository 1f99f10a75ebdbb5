"""Follows a job to its end on the terminal, and turns the end into an exit code."""

from __future__ import annotations

import asyncio
import sys
from contextlib import aclosing
from typing import Protocol, Self

import click

from jobmesh.cli import exits, interrupt
from jobmesh.cli.connection import mesh_options, wants_json
from jobmesh.cli.words import held
from jobmesh.client import (
    Ended,
    Event,
    JobHandle,
    JobInfo,
    Logged,
    ProgressMade,
    State,
    StateChanged,
)
from jobmesh.errors import JobmeshError
from jobmesh.states import TERMINAL

EXPLAIN_SECONDS = 2.0
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

    def note(self, text: str) -> None:
        """Show what is no event."""


async def follow(job: JobHandle, *, after_revision: int = 0, logs: bool = False) -> int:
    """Show what happens to the job until it ends; the exit code."""
    interrupt.say_on_interrupt(
        f"stopped watching; the job goes on. To see more: jobmesh watch {job.id}{mesh_options()}"
    )
    with choose_view() as view:
        lines = asyncio.create_task(_show_log(job, view)) if logs else None
        waits = Waits()
        explains = None if wants_json() else asyncio.create_task(_explain(job, view, waits))
        try:
            ended = await _show_events(job, after_revision, view, lines, waits)
        finally:
            for task in filter(None, (lines, explains)):
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)
    return EXIT_CODES[ended.state]


class Waits:
    """Whether the job waits for its turn, as was shown last, and what was said of that wait."""

    def __init__(self) -> None:
        self.queued = False
        self.told: set[str] = set()

    def is_news(self, text: str) -> bool:
        """Whether to say this; once for each wait."""
        if not self.queued or text in self.told:
            return False
        self.told.add(text)
        return True

    def shown(self, event: Event) -> None:
        """Take note of an event that is shown."""
        if isinstance(event, StateChanged):
            self.queued = event.change.state is State.QUEUED
            if not self.queued:
                self.told.clear()


async def _explain(job: JobHandle, view: View, waits: Waits) -> None:
    """Say what holds the job while it is QUEUED, once for each reason: no event tells it."""
    while True:
        await asyncio.sleep(EXPLAIN_SECONDS)  # a look now and then: there is nothing to wait for
        if not waits.queued:
            continue
        try:
            text = held(await job.get(full=False))
        except JobmeshError:
            continue  # the watch itself tells what is wrong
        if text and waits.is_news(text):
            view.note(text)


async def _show_events(
    job: JobHandle,
    after_revision: int,
    view: View,
    lines: asyncio.Task[None] | None,
    waits: Waits,
) -> JobInfo:
    async with aclosing(job.watch(after_revision=after_revision)) as events:
        last: Event | None = None
        async for event in events:
            waits.shown(event)
            if isinstance(event, Ended) and lines is not None:
                await lines  # what was logged comes before how it ended
            if last is not None and not isinstance(event, ProgressMade):
                view.show(last)
                last = None
            # A terminal state is the end, unless a person retried the job; its last progress comes
            # before it.
            if _is_terminal(event):
                last = event
            else:
                view.show(event)
            if isinstance(event, Ended):
                return event.job
    raise AssertionError("a watch ends with the end of its job")


async def _show_log(job: JobHandle, view: View) -> None:
    # Not the watch's own lines, which begin with the watch: these begin with the job.
    try:
        async with aclosing(job.logs(follow=True)) as lines:
            async for line in lines:
                view.show(Logged(line))
    except JobmeshError as error:  # how the job ends is told all the same
        click.echo(f"jobmesh: the log cannot be read on: {error}", err=True)


def _is_terminal(event: Event) -> bool:
    return isinstance(event, StateChanged) and event.change.state in TERMINAL


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
