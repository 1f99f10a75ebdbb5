"""Programs of `jobmesh dev` that are forked: as if they had been executed."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

import jobmesh
from jobmesh.dev.child import Child, Program, describe_exit
from jobmesh.dev.forking import COMMAND, Forks
from jobmesh.server.forked import LOST
from tests.support.forked import forks
from tests.support.leaks import command_of
from tests.support.wait import until

ALONE = {
    "JOBMESH_APP": "jobmesh.dev.sample_app:app",
    "JOBMESH_DISPATCHERS": "127.0.0.1:1",
    "JOBMESH_HTTP_PORT": "0",
}

PRINTS = """
from jobmesh import App

app = App()
app.task("nothing")(lambda job: None)
print("loaded by hand")
"""


@pytest.fixture
async def own() -> AsyncIterator[Forks]:
    """A server that a test may kill."""
    made = Forks("tests.support.forked")
    yield made
    made.close()


def program(log: Path, *arguments: str, **environment: str) -> Program:
    return Program(
        name="runner-7",
        command=(*COMMAND, *arguments),
        log=log,
        environment=os.environ | environment,
    )


def parent_of(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


async def runner(forks: Forks, log: Path) -> Child:
    """A service that runs."""
    child = await forks.start(program(log, "runner", **ALONE))
    await until(lambda: "runner is up" in log.read_text(), describe=log.read_text)
    return child


async def test_a_command_leaves_what_it_says_in_its_log(tmp_path: Path) -> None:
    log = tmp_path / "log"
    child = await forks.start(program(log, "--version"))
    assert await child.wait() == 0
    assert log.read_text() == f"jobmesh {jobmesh.__version__}\n"


async def test_a_command_that_fails_has_its_exit_code(tmp_path: Path) -> None:
    log = tmp_path / "log"
    child = await forks.start(program(log, "gateway", JOBMESH_PORT="nonsense"))
    assert await child.wait() == 64
    assert "JOBMESH_PORT" in log.read_text()


async def test_a_service_has_its_name_and_stops_in_order(tmp_path: Path) -> None:
    log = tmp_path / "log"
    child = await runner(forks, log)
    assert command_of(child.pid) == "jobmesh runner-7"
    assert parent_of(parent_of(child.pid)) == os.getpid()
    assert os.getpgid(child.pid) == child.pid
    assert await child.stop((signal.SIGTERM, 20.0)) == 0


async def test_what_an_app_prints_is_in_the_log_while_it_runs(
    own: Forks, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("PYTHONUNBUFFERED", raising=False)
    (tmp_path / "prints.py").write_text(PRINTS)
    log = tmp_path / "log"
    settings = ALONE | {"JOBMESH_APP": "prints:app", "PYTHONPATH": str(tmp_path)}
    child = await own.start(program(log, "runner", **settings))
    await until(lambda: "runner is up" in log.read_text(), describe=log.read_text)
    assert "loaded by hand\n" in log.read_text()
    child.kill()
    await child.wait()


async def test_it_dies_with_its_server_which_is_told_apart(own: Forks, tmp_path: Path) -> None:
    child = await runner(own, tmp_path / "log")
    os.kill(parent_of(child.pid), signal.SIGKILL)
    assert await child.wait() == LOST
    assert "forked from" in describe_exit(LOST)
    await until(lambda: command_of(child.pid) in ("gone", "a zombie"))
    again = await own.start(program(tmp_path / "again", "--version"))
    assert await again.wait() == 0


async def test_what_runs_ends_when_the_server_is_closed(own: Forks, tmp_path: Path) -> None:
    child = await runner(own, tmp_path / "log")
    own.close()
    await until(lambda: command_of(child.pid) in ("gone", "a zombie"))


async def test_what_is_not_ours_is_executed(tmp_path: Path) -> None:
    ours = program(tmp_path / "log", "--version")
    code = "import os; print(os.getppid())"
    child = await forks.start(
        Program(name="x", command=(sys.executable, "-c", code), log=ours.log, environment=None)
    )
    assert await child.wait() == 0
    assert ours.log.read_text() == f"{os.getpid()}\n"


async def test_a_log_that_cannot_be_opened_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(IsADirectoryError):
        await forks.start(program(tmp_path, "--version"))
