"""`jobmesh dev` and whoever reads what it prints: slowly, not at all, or no longer."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.support.leaks import command_of
from tests.support.mesh import REPOSITORY, START_TIMEOUT, DevMesh
from tests.support.wait import until

TINY = ("tests.support.tiny_dev",)


class PipedMesh(DevMesh):
    """Its output goes to a pipe, which is full at first."""

    def __init__(self, directory: Path) -> None:
        super().__init__(directory, TINY)
        self.reading, self.writing = os.pipe()
        self.output = Path(f"/proc/self/fd/{self.writing}")
        os.set_blocking(self.writing, False)
        try:
            while True:
                os.write(self.writing, b"x" * 65_536)
        except BlockingIOError:
            os.set_blocking(self.writing, True)

    def said(self) -> str:
        """Not known: reading it would make room."""
        logs = self.data / "logs"
        return f"dev.log: {(logs / 'dev.log').read_text()}" if logs.exists() else "nothing"

    def read_all(self) -> str:
        """What is in the pipe now."""
        os.set_blocking(self.reading, False)
        text = b""
        try:
            while new := os.read(self.reading, 65_536):
                text += new
        except BlockingIOError:
            pass
        return text.decode()

    def leave(self) -> None:
        """Read no more; nobody does from now on."""
        for descriptor in (self.reading, self.writing):
            if descriptor >= 0:
                os.close(descriptor)
        self.reading = self.writing = -1


@pytest.fixture
async def piped(tmp_path: Path) -> AsyncIterator[PipedMesh]:
    mesh = PipedMesh(tmp_path)
    try:
        async with mesh:
            yield mesh
    finally:
        mesh.leave()


@pytest.fixture
async def dev(tmp_path: Path) -> AsyncIterator[DevMesh]:
    async with DevMesh(tmp_path, TINY) as mesh:
        yield mesh


def gone(pids: set[int]) -> bool:
    return all(command_of(pid) in ("gone", "a zombie") for pid in pids)


async def pids_of(mesh: DevMesh) -> set[int]:
    return set((await mesh.ready())["processes"].values()) | mesh.server_pids()


async def test_it_starts_and_stops_though_nobody_reads(piped: PipedMesh) -> None:
    child = await piped.start()
    pids = await pids_of(piped)
    assert await child.stop((signal.SIGTERM, 20)) == 0
    assert gone(pids)
    assert not piped.ready_file.exists()
    assert "database system is shut down" in piped.log("postgres")


@pytest.mark.parametrize("how", ["signals", "command"])
async def test_it_can_be_ended_at_once_though_nobody_reads(piped: PipedMesh, how: str) -> None:
    child = await piped.start(TINY_STUBBORN="runner")
    pids = await pids_of(piped)
    if how == "signals":
        child.send(signal.SIGINT)
        await until(lambda: not piped.ready_file.exists())
        child.send(signal.SIGINT)
    else:
        assert await dev_stop_at_once(piped.data) == "stopped\n"
    assert await asyncio.wait_for(child.wait(), 15) == 0
    assert gone(pids)


async def test_a_reader_that_comes_late_is_shown_it_all(piped: PipedMesh) -> None:
    await piped.start()
    await piped.ready()
    text = ""

    def shown() -> bool:
        nonlocal text
        text += piped.read_all()
        return "jobmesh is ready" in text

    await until(shown)
    assert "starting a mesh" in text


async def test_a_reader_that_has_gone_is_a_stop_in_order(piped: PipedMesh) -> None:
    """As in `jobmesh dev | head`."""
    child = await piped.start()
    pids = await pids_of(piped)
    piped.read_all()
    assert not gone(pids)
    piped.leave()
    with (piped.data / "logs/runner-1.log").open("a") as log:
        log.write("something to show\n")
    assert await asyncio.wait_for(child.wait(), 20) == 0
    assert gone(pids)
    assert not piped.ready_file.exists()
    assert "database system is shut down" in piped.log("postgres")
    assert "has gone" in piped.log("dev")


async def test_a_reader_that_goes_while_it_starts_is_a_stop_in_order(piped: PipedMesh) -> None:
    child = await piped.start()
    piped.leave()
    assert await asyncio.wait_for(child.wait(), START_TIMEOUT) == 0
    assert gone(piped.server_pids())


async def test_a_terminal_of_another_encoding_is_no_obstacle(dev: DevMesh) -> None:
    child = await dev.start(PYTHONIOENCODING="latin-1", PYTHONUTF8="0", LC_ALL="C")
    await dev.ready()
    with (dev.data / "logs/runner-1.log").open("a") as log:
        log.write("\N{GRINNING FACE}\nthe next line\n")
    await until(lambda: "the next line" in dev.said(), describe=dev.said)
    assert "runner-1     | \\U0001f600\n" in dev.said()
    assert await child.stop((signal.SIGTERM, 20)) == 0
    assert "jobmesh has stopped" in dev.said()


async def dev_stop_at_once(data: Path) -> str:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", *TINY, "stop", "--kill", "--data", str(data)),
        cwd=REPOSITORY,
        stdout=asyncio.subprocess.PIPE,
    )
    output, _ = await asyncio.wait_for(process.communicate(), START_TIMEOUT)
    return output.decode()
