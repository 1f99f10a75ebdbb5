"""Real processes that are started, told to stop, and broken."""

from __future__ import annotations

import asyncio
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from tests.support.process import clean_environment

PROGRAM = Path(__file__).with_name("lifecycle_process.py")
STARTED = ["start first", "start middle", "start last"]
STOPPED = ["stop last", "stop middle", "stop first"]


class Running:
    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self.process = process
        self.seen: list[str] = []

    async def until(self, line: str) -> None:
        assert self.process.stdout is not None
        async with asyncio.timeout(20):
            while line not in self.seen:
                read = await self.process.stdout.readline()
                assert read, f"ended after {self.seen}"
                self.seen.append(read.decode().strip())

    async def end(self) -> tuple[int, list[str], str]:
        """Exit code, all lines, the log."""
        async with asyncio.timeout(20):
            out, log = await self.process.communicate()
        return self.process.returncode or 0, self.seen + out.decode().splitlines(), log.decode()


@asynccontextmanager
async def running(behaviour: str, stop_timeout: float = 10) -> AsyncIterator[Running]:
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        str(PROGRAM),
        behaviour,
        str(stop_timeout),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env=clean_environment(),
    )
    try:
        yield Running(process)
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_a_signal_stops_in_reverse_order(number: signal.Signals) -> None:
    async with running("works") as service:
        await service.until("start last")
        service.process.send_signal(number)
        code, lines, log = await service.end()
    assert (code, lines) == (0, STARTED + STOPPED)
    assert f"{number.name}, stopping" in log
    assert "test has stopped" in log


async def test_a_second_signal_ends_the_process_at_once() -> None:
    async with running("stop-hangs", 60) as service:
        await service.until("start last")
        service.process.send_signal(signal.SIGTERM)
        await service.until("stop middle")
        service.process.send_signal(signal.SIGINT)
        code, lines, log = await service.end()
    assert code == 128 + signal.SIGINT
    assert "second SIGINT, exiting at once" in log
    assert "stop first" not in lines


async def test_a_signal_during_the_start_stops_what_was_started() -> None:
    async with running("start-hangs") as service:
        await service.until("start middle")
        service.process.send_signal(signal.SIGTERM)
        code, lines, _ = await service.end()
    assert (code, lines) == (0, ["start first", "start middle", "stop middle", "stop first"])


async def test_a_start_that_fails_stops_what_was_started_and_says_why() -> None:
    async with running("start-fails") as service:
        code, lines, log = await service.end()
    assert (code, lines) == (1, ["start first", "start middle", "stop middle", "stop first"])
    assert "test could not start: cannot listen on 127.0.0.1:7480" in log


async def test_a_failed_background_task_stops_the_service_with_an_error() -> None:
    async with running("task-fails") as service:
        code, lines, log = await service.end()
    assert code == 1
    assert lines[-3:] == STOPPED or lines[-2:] == STOPPED[1:]  # the last may not have started
    assert "test stops: feeder failed: no feed" in log


async def test_a_part_that_does_not_stop_is_left_behind() -> None:
    async with running("stop-hangs", 0.1) as service:
        await service.until("start last")
        service.process.send_signal(signal.SIGTERM)
        code, lines, log = await service.end()
    assert (code, lines) == (1, STARTED + STOPPED)
    assert "Middle did not stop in time" in log


async def test_a_part_that_fails_to_stop_does_not_keep_others_from_it() -> None:
    async with running("stop-fails") as service:
        await service.until("start last")
        service.process.send_signal(signal.SIGTERM)
        code, lines, log = await service.end()
    assert (code, lines) == (1, STARTED + STOPPED)
    assert "cannot stop" in log
