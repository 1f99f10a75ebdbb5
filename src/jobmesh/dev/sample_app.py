"""What `jobmesh dev` serves where there is nothing else: something to submit at once."""

from __future__ import annotations

import asyncio

from jobmesh.app import App
from jobmesh.context import JobContext
from jobmesh.retry import Retry

app = App()

LONGEST_COUNTDOWN = 600


@app.task("hello")
async def hello(job: JobContext, name: str = "world") -> str:
    """Greet somebody."""
    job.log.info("greeting")
    return f"Hello, {name}!"


@app.task("countdown")
async def countdown(job: JobContext, seconds: int = 10) -> int:
    """Count the seconds down, from the last checkpoint if the runner is another one by now."""
    if not 0 < seconds <= LONGEST_COUNTDOWN:
        raise job.permanent(f"seconds must be 1 to {LONGEST_COUNTDOWN}, is {seconds}")
    for passed in range(int(job.restored or 0), seconds):
        await job.progress(passed / seconds, f"{seconds - passed} left", total=seconds)
        await asyncio.sleep(1)
        await job.checkpoint(passed + 1)
    return seconds


@app.task("flaky", retry=Retry(max_attempts=5, initial_interval="500ms"))
async def flaky(job: JobContext, failures: int = 2) -> str:
    """Fail so many times, to show a retry."""
    if job.failures < failures:
        raise RuntimeError(f"failure {job.failures + 1} of {failures}, as asked")
    return f"succeeded after {job.failures} failures"
