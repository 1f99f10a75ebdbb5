"""What handlers write down themselves: one file, to which all runners append a line at a time.

A file and no database, as whatever the mesh stands on may be killed, frozen or cut off here, and
its records must not be. A line is one `write` to a file opened for appending: lines of several
processes do not mix, and a process that is killed leaves whole ones.
"""

from __future__ import annotations

import os
import time
from pathlib import Path

from tests.faults.history import Run

VARIABLE = "LEDGER"

_file: int | None = None


def began(job_id: str, attempt: int, restored: int = 0) -> None:
    """A handler begins, at this step."""
    _write(f"began {job_id} {attempt} {time.time():.6f} {os.getpid()} {restored}")


def acknowledged(job_id: str, attempt: int, step: int) -> None:
    """The checkpoint after this step was answered."""
    _write(f"stored {job_id} {attempt} {os.getpid()} {step}")


def ended(job_id: str, attempt: int, outcome: str) -> None:
    """A handler ends: `returned`, `raised` or `cancelled`."""
    _write(f"ended {job_id} {attempt} {time.time():.6f} {os.getpid()} {outcome}")


def _write(line: str) -> None:
    global _file
    if _file is None:
        _file = os.open(os.environ[VARIABLE], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    os.write(_file, f"{line}\n".encode())


def read(path: Path) -> list[Run]:
    """All runs, in the order in which they began."""
    if not path.exists():
        return []
    return parse(path.read_text())


def parse(text: str) -> list[Run]:
    """The runs that such a file tells of; a last line without its end is none."""
    runs: list[Run] = []
    current: dict[tuple[str, str, str], Run] = {}
    for line in text[: text.rfind("\n") + 1].splitlines():
        what, job_id, attempt, *rest = line.split()
        if what == "began":
            run = Run(job_id, int(attempt), int(rest[1]), float(rest[0]), restored=int(rest[2]))
            runs.append(run)
            current[job_id, attempt, rest[1]] = run
        elif what == "stored":
            current[job_id, attempt, rest[0]].acknowledged = int(rest[1])
        else:
            run = current[job_id, attempt, rest[1]]
            run.end, run.outcome = float(rest[0]), rest[2]
    return runs
