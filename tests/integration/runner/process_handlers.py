"""Handlers that are run in processes of their own, and what they may do to them."""

from __future__ import annotations

import asyncio
import ctypes
import os
import resource
import signal
import subprocess
import sys
import threading
import time
from functools import partial
from typing import Any

from jobmesh import App, JobContext, LeaseLost, SyncJobContext

app = App()


@app.task("where")
async def where() -> int:
    return os.getpid()


@app.task("where.process", process=True)
async def where_process() -> dict[str, Any]:
    main = threading.current_thread() is threading.main_thread()
    return {"pid": os.getpid(), "main": main}


@app.task("where.process.sync", process=True)
def where_process_sync() -> dict[str, Any]:
    main = threading.current_thread() is threading.main_thread()
    return {"pid": os.getpid(), "main": main}


@app.task("talk", process=True)
async def talk(job: JobContext, n: int) -> dict[str, Any]:
    for number in range(n):
        await job.progress(current=number + 1, total=n, message=f"step {number + 1}")
    job.log.info("in %s", "a process")
    await job.checkpoint({"n": n})
    first = await job.once("first", lambda: n)
    again = await job.once("first", lambda: -1)
    return {"restored": job.restored, "first": first, "again": again, "attempt": job.attempt}


@app.task("talk.sync", process=True)
def talk_sync(job: SyncJobContext, n: int) -> dict[str, Any]:
    job.progress(current=n, total=n)
    job.log.warning("in a process")
    job.checkpoint({"n": n})
    return {"first": job.once("first", lambda: n), "deadline": job.deadline is not None}


@app.task("wait", process=True)
async def wait(job: JobContext, seconds: float = 3600.0) -> str:
    job.log.info("pid %d", os.getpid())
    try:
        await asyncio.sleep(seconds)
    except asyncio.CancelledError:
        job.log.info("told: %s", job.cancelled.reason)
        raise
    return "waited"


@app.task("wait.sync", process=True)
def wait_sync(job: SyncJobContext) -> str:
    job.log.info("pid %d", os.getpid())
    job.cancelled.wait()
    job.log.info("told: %s", job.cancelled.reason)
    job.raise_if_cancelled()
    return "not told"


@app.task("deaf", process=True)
def deaf(job: SyncJobContext) -> None:
    """Looks at nothing, and starts a process that would outlive it."""
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(3600)"])
    job.log.info("pid %d", os.getpid())
    job.log.info("child %d", child.pid)
    while True:
        time.sleep(0.01)


@app.task("fail", process=True)
async def fail(job: JobContext) -> None:
    raise job.permanent("no such month")


@app.task("lost", process=True)
async def lost(job: JobContext) -> None:
    try:
        await job.checkpoint(1)
    except LeaseLost as error:
        job.log.info("lost %s", error)
        await asyncio.Event().wait()


def _die(how: str) -> None:
    if how == "segfault":
        ctypes.string_at(0)
    elif how == "exit":
        os._exit(3)
    elif how == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    elif how == "abort":
        os.abort()
    elif how == "memory":
        resource.setrlimit(resource.RLIMIT_AS, (1 << 30, 1 << 30))
        ctypes.memset(ctypes.create_string_buffer(2 << 30), 1, 2 << 30)


@app.task("die", process=True)
async def die(how: str) -> None:
    _die(how)


@app.task("die.sync", process=True)
def die_sync(how: str) -> None:
    _die(how)


@app.task("die.here")
async def die_here(how: str) -> None:
    """Not asked to be run in a process."""
    _die(how)


@app.task("steps")
async def steps(job: JobContext, keys: list[str]) -> list[Any]:
    return [await job.once(key, partial(_by, key, job.attempt)) for key in keys]


def _by(key: str, attempt: int) -> str:
    return f"{key} by {attempt}"


@app.task("steps.stopped")
async def steps_stopped(job: JobContext) -> None:
    await job.once("done", lambda: "done")


@app.task("steps.and_a_failure")
async def steps_and_a_failure(job: JobContext, count: int) -> None:
    """Ended by what is no step, while results of steps wait for their turn to be stored."""
    all_done = asyncio.Barrier(count + 1)

    async def step() -> str:
        await all_done.wait()
        return "done"

    async def fail() -> None:
        await all_done.wait()
        await asyncio.sleep(0)  # steps return first
        raise RuntimeError("no step")

    await asyncio.gather(*(job.once(f"{n}", step) for n in range(count)), fail())


@app.task("steps.many")
async def steps_many(job: JobContext, count: int) -> None:
    await asyncio.gather(*(job.once(f"{n}", partial(_by, f"{n}", 1)) for n in range(count)))


@app.task("steps.lost")
async def steps_lost(job: JobContext) -> str:
    try:
        await job.once("a", lambda: 1)
    except LeaseLost:
        job.log.info("lost")
        await asyncio.Event().wait()
    return "stored"


@app.task("beat", heartbeat_timeout="1s")
async def beat(job: JobContext, seconds: float, then: float = 0.0) -> str:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        job.heartbeat()
        await asyncio.sleep(0.1)
    await asyncio.sleep(then)
    return "beaten"


@app.task("beat.process", heartbeat_timeout="1s", process=True)
def beat_process(job: SyncJobContext, seconds: float, then: float = 0.0) -> str:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        job.heartbeat()
        time.sleep(0.1)
    time.sleep(then)
    return "beaten"


@app.task("checkpoint")
async def checkpoint(job: JobContext) -> str:
    await job.checkpoint(1)
    return "stored"
