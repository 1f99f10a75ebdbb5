"""What runners serve while the mesh is hurt: handlers of every kind, each of which keeps book."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from jobmesh import App, JobContext, Retry
from tests.faults import ledger

app = App()

LIMITED = "limited"
LIMIT = 3
MOST_FAILURES = 4
POLL_SECONDS = 0.05
Result = dict[str, int]


@contextmanager
def booked(job: JobContext, restored: int = 0) -> Iterator[None]:
    """The run of a handler, in the ledger."""
    ledger.began(job.job_id, job.attempt, restored)
    outcome = "cancelled"
    try:
        yield
        outcome = "returned"
    except Exception:
        outcome = "raised"
        raise
    finally:
        ledger.ended(job.job_id, job.attempt, outcome)


async def opened(gate: str) -> None:
    """Wait until a file is there."""
    while not Path(gate).exists():  # noqa: ASYNC110 - another process makes it
        await asyncio.sleep(POLL_SECONDS)


@app.task("quick")
async def quick(job: JobContext) -> Result:
    """Be done at once."""
    with booked(job):
        return {"attempt": job.attempt}


@app.task("slow")
async def slow(job: JobContext, millis: int) -> Result:
    """Take some time."""
    with booked(job):
        await asyncio.sleep(millis / 1000)
        return {"attempt": job.attempt}


@app.task("hold")
async def hold(job: JobContext, gate: str) -> Result:
    """Run until a file is there."""
    with booked(job):
        await opened(gate)
        return {"attempt": job.attempt}


@app.task("talk")
async def talk(job: JobContext, gate: str, lines: int, size: int, millis: int) -> Result:
    """Once a file is there, log so many lines of so many bytes, one by one."""
    with booked(job):
        await opened(gate)
        for number in range(lines):
            job.log.info("%s", f"{number} ".ljust(size, "x"))
            await asyncio.sleep(millis / 1000)
        return {"attempt": job.attempt}


@app.task("limited", queue=LIMITED)
async def limited(job: JobContext, millis: int) -> Result:
    """Take some time, in a queue that lets few run at once."""
    with booked(job):
        await asyncio.sleep(millis / 1000)
        return {"attempt": job.attempt}


@app.task("flaky", retry=Retry(max_attempts=MOST_FAILURES, initial_interval="100ms"))
async def flaky(job: JobContext, falls: int) -> Result:
    """Fail so many times, and then not."""
    with booked(job):
        await asyncio.sleep(0.02)
        if job.failures < falls:
            raise RuntimeError(f"fall {job.failures + 1} of {falls}")
        return {"attempt": job.attempt}


@app.task("steps")
async def steps(job: JobContext, count: int, millis: int) -> Result:
    """Take so many steps, and store each."""
    first = int(job.restored or 0)
    with booked(job, first):
        for step in range(first + 1, count + 1):
            await asyncio.sleep(millis / 1000)
            await job.progress(current=step, total=count)
            await job.checkpoint(step)
            ledger.acknowledged(job.job_id, job.attempt, step)
        return {"attempt": job.attempt}


@app.task("patient")
async def patient(job: JobContext, millis: int) -> Result:
    """Wait to be cancelled, and clean up."""
    with booked(job):
        try:
            await asyncio.sleep(millis / 1000)
        finally:
            await asyncio.sleep(0.05)
        return {"attempt": job.attempt}


@app.task("clinging")
async def clinging(job: JobContext) -> Result:
    """Hang at the first attempt, and be done at once at any other."""
    with booked(job):
        await asyncio.sleep(120 if job.attempt == 1 else 0)
        return {"attempt": job.attempt}
