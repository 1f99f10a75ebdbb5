"""`jobmesh dev` with stand-ins for the services: `python -m tests.support.tiny_dev OPTION…`."""

from __future__ import annotations

import functools
import sys
from pathlib import Path

from jobmesh.dev import detach, run
from jobmesh.dev.command import dev
from jobmesh.dev.supervisor import Supervisor

TINY = str(Path(__file__).with_name("tiny_service.py"))

if __name__ == "__main__":
    tiny = functools.partial(Supervisor, command=lambda service: (sys.executable, TINY, service))
    setattr(run, "Supervisor", tiny)  # noqa: B010 - the one part that a test replaces
    detach.COMMAND = (sys.executable, "-m", "tests.support.tiny_dev")
    dev()
