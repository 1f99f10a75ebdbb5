"""Shows what happens: a moving bar to a person, plain lines to a file."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, TaskProgressColumn, TextColumn, TimeElapsedColumn
from rich.progress import Progress as Bar

from jobmesh.client.info import Progress

Show = Callable[[Progress], None]
SECONDS_BETWEEN_LINES = 0.5


class Screen:
    """Lines, and one bar at a time below them."""

    def __init__(self, console: Console | None = None) -> None:
        self.console = console or Console(highlight=False, soft_wrap=True)
        self._start = time.monotonic()

    def step(self, text: str) -> None:
        """Something that the demo does or finds."""
        elapsed = time.monotonic() - self._start
        self.console.print(f"[dim]{elapsed:5.1f} s[/]  {text}")

    @contextmanager
    def progress(self, title: str) -> Iterator[Show]:
        """A function that shows a job's progress, until the end of the block."""
        if self.console.is_terminal:
            with self._bar(title) as show:
                yield show
        else:
            yield self._lines(title)

    @contextmanager
    def _bar(self, title: str) -> Iterator[Show]:
        columns = (
            TextColumn("         {task.description}"),
            BarColumn(bar_width=32),
            TaskProgressColumn(),
            TextColumn("{task.fields[message]}"),
            TimeElapsedColumn(),
        )
        with Bar(*columns, console=self.console) as bar:
            task = bar.add_task(title, total=1.0, message="")
            yield lambda at: bar.update(task, completed=at.fraction, message=escape(at.message))

    def _lines(self, title: str) -> Show:
        last = 0.0

        def show(at: Progress) -> None:
            nonlocal last
            now = time.monotonic()
            if now - last >= SECONDS_BETWEEN_LINES:
                last = now
                self.step(f"{title} {at.fraction:4.0%}  {escape(at.message)}")

        return show
