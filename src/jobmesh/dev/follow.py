"""Shows the logs of all processes on a terminal as they grow, each line with its process's name.

The processes write to their files and never wait for the terminal: one that is paused, or slow,
holds up nobody. The reading and printing is a thread's, for the same reason. It also prints what
the supervisor says, which must not wait either.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Protocol

from jobmesh.dev.calm import Calm
from jobmesh.dev.render import Renderer

POLL = 0.1
CHUNK = 65_536
LONGEST_LINE = 65_536
MOST_SAID = 100


class LogFile:
    """Reads what is added to one file from now on, in whole lines."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._position = path.stat().st_size if path.exists() else 0
        self._rest = b""

    def new_lines(self) -> list[str]:
        """The lines since the last call, as many as one chunk holds."""
        try:
            size = self._path.stat().st_size
            if size == self._position:
                return []
            if size < self._position:  # it was rotated
                self._position = 0
            with self._path.open("rb") as file:
                file.seek(self._position)
                chunk = file.read(CHUNK)
        except OSError:  # not there yet, or not to be read now
            return []
        self._position += len(chunk)
        *lines, self._rest = (self._rest + chunk).split(b"\n")
        if len(self._rest) > LONGEST_LINE:
            lines, self._rest = [*lines, self._rest], b""
        return [line.decode(errors="replace") for line in lines]


class Output(Protocol):
    """Takes text, and may make the writer wait."""

    def write(self, text: str, /) -> object: ...


class LogFollower:
    """Prints the lines of several logs, and what it is given to say, until it is stopped.

    :param on_gone: called, by the thread, if nobody reads the output any more; it prints no more.
    """

    def __init__(
        self,
        files: Mapping[str, Path],
        output: Output,
        colour: bool,
        on_gone: Callable[[], None] = lambda: None,
    ) -> None:
        self._files = {name: LogFile(path) for name, path in files.items()}
        self._output = output
        self._on_gone = on_gone
        self._render = Renderer(list(files), colour)
        self._calm = Calm()
        self._said: deque[str] = deque(maxlen=MOST_SAID)
        self._all_is_well = threading.Event()
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="log-follower", daemon=True)

    def start(self) -> None:
        """Begin; only what is written from now on is shown."""
        self._thread.start()

    def say(self, text: str, *, all_is_well: bool = False) -> None:
        """Print this line, after what was logged before. Never waits; what is too much is lost.

        :param all_is_well: what services warned of while they started is of no interest any more.
        """
        if all_is_well:
            self._all_is_well.set()
        self._said.append(text + "\n")

    def stop(self, timeout: float = 2.0) -> None:
        """Show the last lines and end; a terminal that takes nothing is waited for no longer."""
        self._stopping.set()
        self._thread.join(timeout)

    def _run(self) -> None:
        try:
            while not self._stopping.wait(0 if self._show() else POLL):
                pass
            while self._show():
                pass
            self._print(self._rendered(self._calm.rest()))
        except BrokenPipeError:
            self._on_gone()

    def _show(self) -> bool:
        """Print what is new; whether there was something."""
        # In this order: what was logged before it was said is found in the logs.
        all_is_well = self._all_is_well.is_set()
        said = [self._said.popleft() for _ in range(len(self._said))]
        found = self._show_logs()
        if all_is_well:
            self._calm.forget()
        self._print(said)
        return found or bool(said)

    def _show_logs(self) -> bool:
        found = False
        self._print(self._rendered(self._calm.overdue()))
        for name, file in self._files.items():
            lines = file.new_lines()
            self._print(self._rendered(self._calm.pass_on(name, lines)))
            found = found or bool(lines)
        return found

    def _rendered(self, lines: Iterable[tuple[str, str]]) -> Iterable[str]:
        rendered = (self._render(name, line) for name, line in lines)
        return (text + "\n" for text in rendered if text is not None)

    def _print(self, texts: Iterable[str]) -> None:
        text = "".join(texts)
        try:
            if text:
                self._output.write(text)
        except BrokenPipeError:
            raise
        except OSError:
            return  # a full disk, say: these are lost to it, not those that follow
