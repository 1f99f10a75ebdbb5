"""Shows the logs of all processes on a terminal as they grow, each line with its process's name.

The processes write to their files and never wait for the terminal: one that is paused, or slow,
holds up nobody. The reading and printing is a thread's, for the same reason.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import IO

from jobmesh.dev.render import Renderer

POLL = 0.1
CHUNK = 65_536
LONGEST_LINE = 65_536


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
        except FileNotFoundError:
            return []
        self._position += len(chunk)
        *lines, self._rest = (self._rest + chunk).split(b"\n")
        if len(self._rest) > LONGEST_LINE:
            lines, self._rest = [*lines, self._rest], b""
        return [line.decode(errors="replace") for line in lines]


class LogFollower:
    """Prints the lines of several logs until it is stopped; then what is left of them."""

    def __init__(self, files: Mapping[str, Path], output: IO[str], colour: bool) -> None:
        self._files = {name: LogFile(path) for name, path in files.items()}
        self._output = output
        self._render = Renderer(list(files), colour)
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="log-follower", daemon=True)

    def start(self) -> None:
        """Begin; only what is written from now on is shown."""
        self._thread.start()

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
        except OSError:
            return  # the terminal has gone

    def _show(self) -> bool:
        """Print what is new; whether there was something."""
        shown = False
        for name, file in self._files.items():
            lines = file.new_lines()
            self._output.writelines(self._rendered(name, lines))
            shown = shown or bool(lines)
        if shown:
            self._output.flush()
        return shown

    def _rendered(self, name: str, lines: Iterable[str]) -> Iterable[str]:
        return (text + "\n" for line in lines if (text := self._render(name, line)) is not None)
