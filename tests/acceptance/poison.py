"""Handlers that do the worst, and one that wants to be left in peace."""

from __future__ import annotations

import asyncio
import ctypes
import os
import resource
import signal
import time
from pathlib import Path
from typing import Any

from jobmesh import App, JobContext, Retry

app = App()
TWICE = Retry(max_attempts=2, initial_interval="50ms", jitter=0.0)
LONG = 5 << 20


@app.task("neighbour")
async def neighbour(job: JobContext, number: int) -> int:
    """Works a little, and says so."""
    await job.progress(0.5)
    await asyncio.sleep(0.02)
    return number


@app.task("raise", retry=TWICE)
async def raises() -> None:
    raise RuntimeError("as always")


@app.task("raise.long", retry=TWICE)
async def raises_at_length() -> None:
    """A traceback, and a text, of 5 MB."""
    raise RuntimeError("x" * LONG)


def _deeper(depth: int) -> None:
    if depth:
        # A new function each time, so that the traceback cannot be folded.
        exec(f"def f(g, d):\n    g(d - 1)  # {'y' * 60_000}\nf(_deeper, {depth})", globals())
    raise RuntimeError("deep down")


@app.task("raise.deep", retry=TWICE)
def raises_from_deep_down() -> None:
    _deeper(90)


@app.task("segfault", retry=TWICE)
async def segfault() -> None:
    ctypes.string_at(0)


@app.task("segfault.thread", retry=TWICE)
def segfault_in_a_thread() -> None:
    ctypes.string_at(0)


@app.task("exit", retry=TWICE)
async def leave() -> None:
    os._exit(0)


@app.task("killed", retry=TWICE)
def killed() -> None:
    """As the kernel does with whoever takes too much memory."""
    os.kill(os.getpid(), signal.SIGKILL)


@app.task("segfault.process", process=True, retry=TWICE)
def segfault_in_a_process() -> None:
    ctypes.string_at(0)


@app.task("memory.process", process=True, retry=TWICE)
def takes_all_memory() -> None:
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    most = pages * resource.getpagesize() + (128 << 20)
    resource.setrlimit(resource.RLIMIT_AS, (most, most))
    kept = []
    while True:
        kept.append(bytearray(16 << 20))


@app.task("loop", timeout="300ms", retry=TWICE)
async def loops_for_ever() -> None:
    while True:
        pass


@app.task("loop.thread", timeout="300ms", retry=TWICE)
def loops_for_ever_in_a_thread() -> None:
    while True:
        time.sleep(0.001)


@app.task("loop.process", timeout="300ms", process=True, retry=TWICE)
def loops_for_ever_in_a_process() -> None:
    while True:
        pass


@app.task("unserializable", retry=TWICE)
async def unserializable() -> object:
    return object()


@app.task("deaf", timeout="300ms", retry=TWICE)
async def swallows_its_cancellation() -> None:
    while True:
        try:
            await asyncio.sleep(0.05)
        except asyncio.CancelledError:
            continue


@app.task("dependent")
async def needs_a_dependency(job: JobContext, until: float) -> dict[str, Any]:
    """Fails while what it needs is down; with the policy that a task has if it names none."""
    if time.time() < until:
        raise ConnectionError("the dependency is down")
    return {"failures": job.failures}


@app.task("long")
async def long(job: JobContext, until: str) -> int:
    """Goes on until that file exists."""
    while not Path(until).exists():  # noqa: ASYNC110 - another process makes it
        await asyncio.sleep(0.05)
    return job.attempt
