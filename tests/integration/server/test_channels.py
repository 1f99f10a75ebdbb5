"""What clients notice of replicas that are stopped, killed, frozen and come back: nothing."""

from __future__ import annotations

import asyncio
import signal
import sys
import time
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import grpc

from jobmesh.channels import open_channel
from jobmesh.dev.ports import PortPool
from tests.support.process import clean_environment
from tests.support.wait import until

PROGRAM = Path(__file__).with_name("echo_process.py")
Process = asyncio.subprocess.Process


async def start(port: int) -> Process:
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        str(PROGRAM),
        str(port),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
        env=clean_environment(),
    )
    assert process.stdout is not None
    async with asyncio.timeout(20):
        assert await process.stdout.readline() == b"started\n"
    return process


async def end(process: Process, number: signal.Signals = signal.SIGKILL) -> int:
    if process.returncode is None:
        process.send_signal(number)
    async with asyncio.timeout(20):
        return await process.wait()


class Load:
    """Eight callers that ask without a pause."""

    def __init__(self, channel: grpc.aio.Channel) -> None:
        self._ask = channel.unary_unary("/test.v1.Who/Ask", None, None)
        self._latest: deque[str] = deque(maxlen=50)  # process ids of those who answered
        self._last_answer = [0.0] * 8
        self.failures: list[str] = []
        self.slowest = 0.0

    async def run(self) -> None:
        async with asyncio.TaskGroup() as group:
            for caller in range(len(self._last_answer)):
                group.create_task(self._loop(caller))

    async def _loop(self, caller: int) -> None:
        while True:
            began = time.monotonic()
            try:
                pid: bytes = await self._ask(b"", timeout=15, wait_for_ready=True)
                self._latest.append(pid.decode())
                self._last_answer[caller] = time.monotonic()
            except grpc.aio.AioRpcError as error:
                self.failures.append(f"{error.code()}: {error.details()}")
            self.slowest = max(self.slowest, time.monotonic() - began)
            await asyncio.sleep(0.001)

    async def answered_by(self, processes: list[Process]) -> None:
        """Every caller gets answers from now on, and these processes give them."""
        now = time.monotonic()
        expected = {str(process.pid) for process in processes}
        await until(
            lambda: min(self._last_answer) > now and set(self._latest) == expected,
            20,
            lambda: f"{expected} answer all; of late it was {set(self._latest)}",
        )


@asynccontextmanager
async def loaded(ports: list[int]) -> AsyncIterator[Load]:
    targets = [f"127.0.0.1:{port}" for port in ports]
    async with open_channel(targets, "test.v1.Who") as channel:
        load = Load(channel)
        running = asyncio.create_task(load.run())
        try:
            yield load
        finally:
            running.cancel()
            await asyncio.wait({running})


async def test_calls_survive_a_rolling_restart_a_kill_and_a_freeze(ports: PortPool) -> None:
    numbers = [ports.take(), ports.take()]
    replicas = [await start(port) for port in numbers]
    try:
        async with loaded(numbers) as load:
            await load.answered_by(replicas)
            for n, port in enumerate(numbers):
                assert await end(replicas[n], signal.SIGTERM) == 0
                await load.answered_by([replicas[1 - n]])
                replicas[n] = await start(port)
                await load.answered_by(replicas)
            assert load.slowest < 2
            await end(replicas[0], signal.SIGKILL)
            await load.answered_by([replicas[1]])
            replicas[0] = await start(numbers[0])
            await load.answered_by(replicas)
            replicas[1].send_signal(signal.SIGSTOP)
            await load.answered_by([replicas[0]])
            replicas[1].send_signal(signal.SIGCONT)
            await load.answered_by(replicas)
        assert load.failures == []
        assert load.slowest < 10  # the frozen one is noticed after 7 s at most
    finally:
        for replica in replicas:
            await end(replica)
