"""What the runners of acceptance tests serve."""

from __future__ import annotations

import asyncio

from jobmesh import App, JobContext, Retry

app = App()


@app.task("note")
async def note(job: JobContext, number: int = 0, millis: int = 0) -> int:
    """Take some time, and give the number back."""
    if millis:
        await asyncio.sleep(millis / 1000)
    return number


@app.task("stumble", retry=Retry(max_attempts=9, initial_interval="50ms", jitter=0.5))
async def stumble(job: JobContext, falls: int = 1, millis: int = 0) -> int:
    """Fail so many times, and then not."""
    await asyncio.sleep(millis / 1000)
    if job.failures < falls:
        raise RuntimeError(f"fall {job.failures + 1} of {falls}")
    return job.failures
