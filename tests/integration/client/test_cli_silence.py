"""A person at a terminal is told at once that no gateway answers; a program waits in silence."""

from __future__ import annotations

import asyncio
import contextlib
import os
import pty
import signal
from collections.abc import AsyncIterator, Iterator

import pytest

from tests.integration.client.conftest import Gateway
from tests.integration.client.test_cli import PROGRAM, TIMEOUT, Cli, finished
from tests.support.wait import until

NOBODY = "127.0.0.1:1"


class Terminal:
    """One that a program writes its errors to."""

    def __init__(self) -> None:
        self._ours, self.theirs = pty.openpty()
        os.set_blocking(self._ours, False)
        self._seen = b""

    def text(self) -> str:
        """All that was written."""
        with contextlib.suppress(OSError):  # nothing new
            self._seen += os.read(self._ours, 65_536)
        return self._seen.decode().replace("\r\n", "\n")

    def close(self) -> None:
        os.close(self._ours)
        os.close(self.theirs)


@pytest.fixture
def terminal() -> Iterator[Terminal]:
    made = Terminal()
    yield made
    made.close()


@contextlib.asynccontextmanager
async def running(
    terminal: Terminal, address: str, *arguments: str
) -> AsyncIterator[asyncio.subprocess.Process]:
    process = await asyncio.create_subprocess_exec(
        *PROGRAM,
        *arguments,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.DEVNULL,
        stderr=terminal.theirs,
        env=Cli(address).environment,
    )
    try:
        yield process
    finally:
        if process.returncode is None:
            process.send_signal(signal.SIGINT)
        async with asyncio.timeout(TIMEOUT):
            await process.wait()


@pytest.mark.parametrize("address", [NOBODY, f"{NOBODY}, 127.0.0.1:2"])
async def test_a_person_is_told_while_the_call_goes_on(terminal: Terminal, address: str) -> None:
    told = f"jobmesh: {address} does not answer yet (Connection refused); still trying\n"
    async with running(terminal, address, "submit", "t") as process:
        await until(lambda: terminal.text() == told, 20, terminal.text)
        assert process.returncode is None


async def test_whom_the_gateway_answers_is_told_nothing(
    gateway: Gateway, terminal: Terminal
) -> None:
    async with running(terminal, gateway.address, "submit", "t") as process:
        assert await process.wait() == 0
    assert terminal.text() == ""


async def test_one_gateway_that_answers_is_enough(gateway: Gateway, terminal: Terminal) -> None:
    both = f"{NOBODY},{gateway.address}"
    async with running(terminal, both, "submit", "t") as process:
        assert await process.wait() == 0
    assert terminal.text() == ""


async def test_whoever_asks_for_the_gateways_is_told_by_the_answer(terminal: Terminal) -> None:
    async with running(terminal, NOBODY, "info") as process:
        assert await process.wait() == 2
    assert terminal.text() == ""


async def test_a_program_is_told_at_the_end_only() -> None:
    done = await finished(await Cli(NOBODY).start("get", "j"))
    assert (done.code, done.out) == (2, "")
    assert done.err.startswith(f"jobmesh: cannot reach the mesh at {NOBODY}: Connection refused\n")
