from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import Callable
from pathlib import Path

import pytest

from jobmesh.dev.directory import DataDirectory
from jobmesh.dev.errors import DevError
from jobmesh.dev.options import DevOptions
from jobmesh.dev.ports import PortPool
from jobmesh.dev.run import run_dev

CONTENT = {"gateway": ["x:1"], "http": {"gateway-1": "x:2"}, "nats": "x:3", "processes": {}}
WARNING = json.dumps({"level": "WARNING", "logger": "jobmesh.x", "message": "not ready: yet"})


class Start:
    """Stands for a supervisor whose gateway warns of something before the start comes to an end."""

    ends = "served"

    def __init__(
        self,
        _: DevOptions,
        data: DataDirectory,
        ports: PortPool,
        on_ready: Callable[[dict[str, object]], None],
    ) -> None:
        self._log = data.log("gateway-1")
        self._on_ready = on_ready

    def logs(self) -> dict[str, Path]:
        return {"gateway-1": self._log}

    async def run(self, asked: asyncio.Event, again: asyncio.Event) -> None:
        self._log.write_text(WARNING + "\n")
        if self.ends == "failed":
            raise DevError("no")
        if self.ends == "served":
            self._on_ready(dict(CONTENT))


@pytest.fixture
def run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> Callable[[str], str]:
    def run(ends: str) -> str:
        """What is printed when the start ends so."""
        monkeypatch.setattr(Start, "ends", ends)
        monkeypatch.setattr("jobmesh.dev.run.Supervisor", Start)
        with contextlib.suppress(DevError):
            run_dev(DevOptions(data=str(tmp_path), app=("a:b",)))
        return capfd.readouterr().out

    return run


def test_what_is_warned_of_before_it_serves_is_not_shown(run: Callable[[str], str]) -> None:
    lines = run("served").splitlines()
    assert lines[0].startswith("starting a mesh")
    assert "jobmesh is ready" in lines
    assert lines[-1] == "jobmesh has stopped"
    assert not any("not ready" in line for line in lines)


def test_nor_if_it_was_stopped_before(run: Callable[[str], str]) -> None:
    printed = run("stopped")
    assert "has stopped" in printed
    assert "not ready" not in printed


def test_it_is_shown_if_the_start_failed(run: Callable[[str], str]) -> None:
    printed = run("failed")
    assert "gateway-1 | WARNING not ready: yet" in printed
    assert "has stopped" not in printed
