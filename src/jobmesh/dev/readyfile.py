"""The file that says where a mesh serves, for programs that started one."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from jobmesh.dev.errors import DevError


class ReadyFile:
    """One JSON object, put in several places by rename: a reader never sees half of it.

    :raises DevError: if there is no directory for it.
    """

    def __init__(self, paths: Iterable[Path]) -> None:
        self._paths = tuple(paths)
        for path in self._paths:
            if not path.parent.is_dir():
                raise DevError(f"no ready file can be put into {path.parent}: no such directory")

    def put(self, content: Mapping[str, object]) -> None:
        """Write it, readable by the owner alone: it holds credentials.

        :raises DevError: if one cannot be written; the others are.
        """
        text = json.dumps(content, indent=2) + "\n"
        self._each(lambda path: _put(path, text), "written")

    def remove(self) -> None:
        """Take it away; also one that a killed predecessor left.

        :raises DevError: if one cannot be removed; the others are.
        """
        self._each(lambda path: path.unlink(missing_ok=True), "removed")

    def _each(self, act: Callable[[Path], None], done: str) -> None:
        problems = []
        for path in self._paths:
            try:
                act(path)
            except OSError as error:
                problems.append(f"{path} cannot be {done}: {error.strerror}")
        if problems:
            raise DevError("; ".join(problems))


def _put(path: Path, text: str) -> None:
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        draft.unlink(missing_ok=True)
        descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "w") as file:
            file.write(text)
        draft.replace(path)
    finally:
        draft.unlink(missing_ok=True)
