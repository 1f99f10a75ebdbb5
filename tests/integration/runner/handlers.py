"""The app of these tests: handlers that do the things that handlers do."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import threading
import time
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

from jobmesh import App, JobContext, LeaseLost, SyncJobContext

app = App()
leftover: ContextVar[str] = ContextVar("leftover", default="")


@app.task("add")
async def add(a: int, b: int = 1) -> int:
    return a + b


@app.task("add.sync")
def add_sync(a: int, b: int = 1) -> int:
    return a + b


@app.task("thread.name")
def thread_name() -> str:
    return threading.current_thread().name.partition("-")[0]


@app.task("whoami")
async def whoami(job: JobContext) -> dict[str, Any]:
    assert job.create_time is not None
    return {
        "id": job.job_id,
        "type": job.type,
        "queue": job.queue,
        "attempt": job.attempt,
        "labels": dict(job.labels),
        "restored": job.restored,
        "year": job.create_time.year,
        "deadline": job.deadline is not None,
        "main": threading.current_thread() is threading.main_thread(),
    }


@app.task("context.leak")
async def context_leak() -> str:
    found = leftover.get()
    leftover.set("seen")
    return found


@app.task("fail")
async def fail(text: str = "broken") -> None:
    raise ValueError(text)


@app.task("fail.permanent")
async def fail_permanent(job: JobContext) -> None:
    raise job.permanent("no such month")


@app.task("snooze")
async def snooze(job: JobContext) -> None:
    raise job.snooze("3s")


@app.task("exit")
async def leave() -> None:
    raise SystemExit(3)


@app.task("exit.sync")
def leave_sync() -> None:
    raise KeyboardInterrupt


@app.task("exit.stray")
async def leave_by_a_stray_task() -> str:
    async def stray() -> None:
        raise SystemExit(4)

    task = asyncio.create_task(stray())
    await asyncio.wait({task})
    return "still here"


@app.task("unserializable")
async def unserializable() -> object:
    return threading.Lock()


@app.task("wait")
async def wait(job: JobContext, seconds: float = 3600.0) -> str:
    await job.progress(0.0, "waiting")
    await asyncio.sleep(seconds)
    return "waited"


@app.task("wait.sync")
def wait_sync(job: SyncJobContext, seconds: float = 3600.0) -> str:
    job.progress(0.0, "waiting")
    if job.cancelled.wait(seconds):
        job.log.info("told: %s", job.cancelled.reason)
        job.raise_if_cancelled()
    return "waited"


@app.task("stubborn")
async def stubborn(seconds: float = 3600.0) -> str:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        try:
            await asyncio.sleep(0.05)
        except asyncio.CancelledError:
            continue
    return "at last"


@app.task("stubborn.sync")
def stubborn_sync(seconds: float = 3600.0) -> str:
    time.sleep(seconds)
    return "at last"


@app.task("finish.anyway")
async def finish_anyway() -> str:
    with contextlib.suppress(asyncio.CancelledError):
        await asyncio.sleep(3600)
    return "done all the same"


@app.task("clean.up")
async def clean_up(job: JobContext) -> None:
    try:
        await asyncio.sleep(3600)
    finally:
        await asyncio.sleep(0.2)
        await job.checkpoint({"cleaned": job.cancelled.is_set()})
        job.log.info("cleaned up: %s", job.cancelled.reason)


@app.task("block.loop")
async def block_loop(seconds: float) -> str:
    time.sleep(seconds)  # noqa: ASYNC251
    return "blocked"


@dataclass
class Cursor:
    row: int


@app.task("checkpoints")
async def checkpoints(job: JobContext, count: int = 3) -> int:
    cursor = job.restored_as(Cursor)
    row = cursor.row if cursor is not None else 0
    for _ in range(count):
        row += 1
        await job.checkpoint(Cursor(row))
    return row


@app.task("checkpoints.sync")
def checkpoints_sync(job: SyncJobContext, count: int = 3) -> int:
    for row in range(count):
        job.checkpoint({"row": row})
    return count


@app.task("checkpoint.lost")
async def checkpoint_lost(job: JobContext) -> None:
    try:
        await job.checkpoint(1)
    except LeaseLost:
        await asyncio.Event().wait()


@app.task("progress.fast")
async def progress_fast(job: JobContext, seconds: float = 1.0) -> int:
    calls = 0
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        calls += 1
        await job.progress(0.5, f"call {calls}")
        await asyncio.sleep(0.001)
    await job.progress(1.0, "last", current=calls, total=calls)
    return calls


@app.task("log")
async def log(job: JobContext, lines: int = 3) -> None:
    for number in range(lines):
        job.log.info("line %d\0\ud800", number)


@app.task("memory")
async def memory(job: JobContext, n: int) -> dict[str, int]:
    return {"n": n}


@app.task("terminate.me")
async def terminate_me() -> str:
    os.kill(os.getpid(), signal.SIGTERM)
    await asyncio.sleep(0.3)
    return "finished"


@app.task("checkpoint.once")
async def checkpoint_once(job: JobContext) -> dict[str, Any]:
    """The first attempt stores one and waits; a later one tells of it."""
    if job.attempt == 1:
        await job.checkpoint({"by": job.attempt})
        await asyncio.Event().wait()
    return {"attempt": job.attempt, "restored": job.restored}
