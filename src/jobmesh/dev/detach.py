"""`jobmesh dev --detach`, and the stop of one from elsewhere."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from jobmesh.dev.directory import DataDirectory
from jobmesh.dev.errors import DevError, tail

COMMAND: tuple[str, ...] = (sys.executable, "-m", "jobmesh.cli.main", "dev")
START_TIMEOUT = 180.0
STOP_TIMEOUT = 120.0
POLL = 0.05


def start_detached(data: DataDirectory, arguments: Sequence[str]) -> Mapping[str, Any]:
    """Start `jobmesh dev ARGUMENTS` in the background; the content of its ready file.

    :raises DevError: if it ends, or is not ready in time (it is stopped then).
    """
    data.prepare()
    with data.locked():  # or say who runs there
        data.ready.unlink(missing_ok=True)
    log = data.log("dev")
    before = log.stat().st_size if log.exists() else 0
    process = _spawn(log, arguments)
    try:
        return _await_ready(process, data, before)
    except BaseException:
        process.terminate()
        process.wait(STOP_TIMEOUT)
        raise


def stop_running(data: DataDirectory, kill: bool = False) -> bool:
    """Stop the `jobmesh dev` of a directory, and wait until it has; False if there is none.

    :raises DevError: if it has not stopped in time.
    """
    pid = data.running()
    if not pid:
        return False
    os.kill(pid, signal.SIGTERM)
    if kill:
        time.sleep(POLL)  # two signals at once may arrive as one
        os.kill(pid, signal.SIGTERM)
    deadline = time.monotonic() + STOP_TIMEOUT
    while data.running() == pid:
        if time.monotonic() > deadline:
            raise DevError(
                f"process {pid} has not stopped; `jobmesh dev stop --kill` ends its jobs"
            )
        time.sleep(POLL)
    return True


def _spawn(log: Path, arguments: Sequence[str]) -> subprocess.Popen[bytes]:
    command = [*COMMAND, "--detached", *arguments]
    with log.open("ab") as output:
        return subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )


def _await_ready(
    process: subprocess.Popen[bytes], data: DataDirectory, before: int
) -> Mapping[str, Any]:
    deadline = time.monotonic() + START_TIMEOUT
    while time.monotonic() < deadline:
        if process.poll() is not None:
            raise DevError(f"the mesh did not start:\n{tail(data.log('dev'), since=before)}")
        if data.ready.exists():
            content: Mapping[str, Any] = json.loads(data.ready.read_text())
            return content
        time.sleep(POLL)
    raise DevError(f"the mesh is not ready after {START_TIMEOUT:.0f} s; see {data.logs}")
