"""The app of these tests: handlers that do what handlers do on good and on bad days."""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
from pathlib import Path
from typing import Any

from jobmesh import App, JobContext, Retry, SyncJobContext, Task

AnyTask = Task[..., Any]

app = App()

SOON = Retry(max_attempts=5, initial_interval="100ms", backoff_coefficient=2, jitter=0)
POLL_SECONDS = 0.02


@app.schedule("0 0 1 1 *", schedule_id="everyday.yearly", arguments={"a": 1})
@app.task("add")
async def add(a: int, b: int = 1) -> int:
    return a + b


@app.task("describe")
async def describe(**values: Any) -> dict[str, Any]:
    """The values as they came, and the Python types that they came as."""
    return {"values": values, "types": types_in(values)}


def types_in(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: types_in(item) for name, item in value.items()}
    if isinstance(value, list):
        return [types_in(item) for item in value]
    return type(value).__name__


@app.task("big")
async def big(value: int) -> dict[str, int]:
    return {"value": value, "next": value + 1}


@app.task("flaky", retry=SOON)
async def flaky(job: JobContext, failures: int) -> int:
    if job.failures < failures:
        raise ConnectionError(f"failure {job.failures + 1}")
    return job.attempt


@app.task("fail", retry=SOON)
async def fail(text: str = "broken") -> None:
    raise ValueError(text)


@app.task("pick", retry=SOON)
async def pick(names: list[str], index: int) -> str:
    return names[index]


@app.task("permanent")
async def permanent(job: JobContext, month: str) -> None:
    raise job.permanent(f"no such month: {month}")


@app.task("not.now")
async def not_now(job: JobContext, times: int, seconds: float = 0.2) -> int:
    """Snooze so many times."""
    if job.attempt <= times:
        raise job.snooze(seconds)
    return job.attempt


@app.task("come.back", retry=Retry(max_attempts=3, initial_interval="10m", jitter=0))
async def come_back(job: JobContext, seconds: float) -> int:
    if job.failures == 0:
        raise job.retry_after(seconds, "the other side asks for a pause")
    return job.failures


@app.task("hold")
async def hold(job: JobContext, path: str = "") -> str:
    """Run until a file is there."""
    await job.progress(0.0, "holding")
    while not path or not Path(path).exists():  # noqa: ASYNC110 - another process makes it
        await asyncio.sleep(POLL_SECONDS)
    return "released"


@app.task("tidy")
async def tidy(job: JobContext) -> None:
    await job.progress(0.0, "working")
    try:
        await asyncio.Event().wait()
    finally:
        await asyncio.sleep(0.1)
        await job.checkpoint({"tidied": job.cancelled.is_set()})
        job.log.info("tidied up: %s", job.cancelled.reason)


@app.task("finish.anyway")
async def finish_anyway(job: JobContext) -> str:
    """Swallow the cancellation, and return."""
    await job.progress(0.0, "working")
    with contextlib.suppress(asyncio.CancelledError):
        await asyncio.Event().wait()
    return "finished all the same"


@app.task("deaf")
async def deaf(job: JobContext, seconds: float = 6.0) -> None:
    """Swallow every cancellation, and go on."""
    await job.progress(0.0, "working")
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.sleep(0.1)


@app.task("thread.work")
def thread_work(job: SyncJobContext, steps: int = 5) -> dict[str, Any]:
    done = int(job.restored or 0)
    for step in range(done, steps):
        job.progress(message=f"step {step + 1}", current=step + 1, total=steps)
        job.log.info("step %d", step + 1)
        job.checkpoint(step + 1)
    return {"thread": threading.current_thread() is not threading.main_thread(), "from": done}


@app.task("thread.hold")
def thread_hold(job: SyncJobContext) -> None:
    job.progress(0.0, "working")
    while True:
        job.raise_if_cancelled()
        time.sleep(POLL_SECONDS)


@app.task("block")
async def block(seconds: float) -> str:
    """Block the loop of all handlers, as no handler should."""
    time.sleep(seconds)  # noqa: ASYNC251
    return "blocked"


@app.task("unserializable", retry=SOON)
async def unserializable() -> object:
    return threading.Lock()


@app.task("too.long", retry=SOON)
async def too_long(characters: int) -> str:
    return "x" * characters


@app.task("loud", retry=Retry(max_attempts=1))
async def loud(megabytes: int) -> None:
    """Fail with a message, and so a traceback, of so many megabytes."""
    raise ValueError("é\0\ud800" + "x" * (megabytes << 20))


@app.task("last.words", retry=Retry(max_attempts=1))
async def last_words(job: JobContext, number: int) -> None:
    job.log.error("goodbye %d", number)
    raise RuntimeError("gone")


@app.task("ticker")
async def ticker(job: JobContext, seconds: float, pause: float = 0.01, lines: bool = False) -> int:
    """Report progress every `pause` seconds, and log as many lines."""
    clock = asyncio.get_running_loop().time
    end, ticks = clock() + seconds, 0
    while clock() < end:
        ticks += 1
        await job.progress(min(1.0, 1 - (end - clock()) / seconds), current=ticks)
        if lines:
            job.log.info("line %d", ticks)
        await asyncio.sleep(pause)
    return ticks


@app.task("count.up")
async def count_up(job: JobContext, steps: int, pause: float = 0.1) -> dict[str, int]:
    """Take so many steps, from the last checkpoint on."""
    done = first = int(job.restored or 0)
    while done < steps:
        await asyncio.sleep(pause)
        done += 1
        await job.checkpoint(done)
    return {"steps": done, "from": first, "attempt": job.attempt}


@app.task("brief")
async def brief(seconds: float = 0.02) -> float:
    await asyncio.sleep(seconds)
    return seconds
