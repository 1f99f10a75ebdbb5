"""A watch on a terminal: a progress bar that stays at the bottom, what happens above it."""

from __future__ import annotations

from typing import Self

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, Progress, ProgressColumn, SpinnerColumn, Task, TextColumn
from rich.text import Text

from jobmesh.cli.output import clean
from jobmesh.cli.view_plain import lines
from jobmesh.cli.words import clock, length
from jobmesh.cli.words import progress as progress_words
from jobmesh.client import Ended, Event, ProgressMade, Snapshot, State, StateChanged

_COLOURS = {
    State.SUCCEEDED: "green",
    State.RUNNING: "cyan",
    State.RETRYING: "yellow",
    State.CANCELLING: "yellow",
    State.CANCELLED: "yellow",
    State.DEAD: "red",
}


class _Clock(ProgressColumn):
    def render(self, task: Task) -> Text:
        """How long we have watched."""
        return Text(length(task.elapsed or 0.0), style="dim")


class LiveView:
    """A bar with state, fraction and message; pulses until a fraction is known."""

    def __init__(self, console: Console | None = None) -> None:
        self._console = console or Console(highlight=False)
        self._progress = Progress(
            SpinnerColumn(finished_text=" "),
            TextColumn("{task.fields[state]}"),
            BarColumn(bar_width=30),
            TextColumn("{task.description}"),
            _Clock(),
            console=self._console,
            transient=True,
        )
        self._bar = self._progress.add_task("", total=None, state="")

    def __enter__(self) -> Self:
        self._progress.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._progress.stop()

    def note(self, text: str) -> None:
        """Print what is no event above the bar."""
        self._console.print(Text(f"{clock(None)} {clean(text)}", style="yellow"))

    def show(self, event: Event) -> None:
        """Move the bar, or print what happened above it."""
        if isinstance(event, ProgressMade):
            self._move(event)
            return
        for line in lines(event):
            self._console.print(_styled(event, line))
        if isinstance(event, StateChanged):
            colour = _COLOURS.get(event.change.state, "default")
            self._progress.update(
                self._bar, state=f"[{colour}]{event.change.state}[/]", description=""
            )
        elif isinstance(event, Snapshot) and event.job.progress is not None:
            self._move(ProgressMade(event.job.progress))

    def _move(self, event: ProgressMade) -> None:
        self._progress.update(
            self._bar,
            total=1.0,
            completed=min(max(event.progress.fraction, 0.0), 1.0),
            description=escape(clean(progress_words(event.progress))),
        )


def _styled(event: Event, line: str) -> Text:
    style = ""
    if isinstance(event, StateChanged):
        style = _COLOURS.get(event.change.state, "")
    elif isinstance(event, Ended) and event.job.state is State.DEAD:
        style = "red"
    return Text(line, style=style)
