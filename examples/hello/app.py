"""Three tasks, a few lines each.

jobmesh submit hello '{"name": "Ada"}' --watch
jobmesh submit countdown '{"seconds": 5}' --watch
jobmesh submit flaky '{}' --watch
"""

from __future__ import annotations

import asyncio

from jobmesh import App, JobContext, Retry

app = App()

TICKS_A_SECOND = 5


@app.task("hello")
async def hello(job: JobContext, name: str = "world") -> str:
    """Greet somebody."""
    job.log.info("saying hello")
    return f"Hello, {name}!"


@app.task("countdown", timeout="10m")
async def countdown(job: JobContext, seconds: int = 10) -> str:
    """Count down, showing progress; a runner that dies hands the rest to another."""
    if not 1 <= seconds <= 300:
        raise job.permanent(f"seconds must be 1 to 300, not {seconds}")
    total = seconds * TICKS_A_SECOND
    for tick in range(job.restored or 0, total):
        left = (total - tick) / TICKS_A_SECOND
        await job.progress(tick / total, f"{left:.1f} s to go", current=tick, total=total)
        await asyncio.sleep(1 / TICKS_A_SECOND)
        if (tick + 1) % TICKS_A_SECOND == 0:
            await job.checkpoint(tick + 1)
    return "lift-off"


@app.task("flaky", retry=Retry(max_attempts=5, initial_interval="500ms"))
async def flaky(job: JobContext, failures: int = 2) -> str:
    """Fail this many times, then succeed."""
    if job.attempt <= failures:
        raise ConnectionError(f"attempt {job.attempt} of {failures + 1}: not yet")
    return f"worked at attempt {job.attempt}"
