"""What the runners of acceptance tests serve."""

from __future__ import annotations

import asyncio
import os
from functools import cache
from pathlib import Path
from uuid import UUID

import asyncpg

from jobmesh import App, JobContext, Retry

app = App()


@app.task("note")
async def note(job: JobContext, number: int = 0, millis: int = 0) -> int:
    """Take some time, and give the number back."""
    if millis:
        await asyncio.sleep(millis / 1000)
    return number


OFTEN = Retry(max_attempts=1000, initial_interval="50ms", backoff_coefficient=1, jitter=0.5)


@app.task("stumble", retry=OFTEN)
async def stumble(job: JobContext, falls: int = 1, millis: int = 0) -> int:
    """Fail so many times, and then not."""
    await asyncio.sleep(millis / 1000)
    if job.failures < falls:
        raise RuntimeError(f"fall {job.failures + 1} of {falls}")
    return job.failures


@app.task("stumble_on", retry=OFTEN)
async def stumble_on(job: JobContext, until: str, millis: int = 0) -> int:
    """Fail until that file exists."""
    await asyncio.sleep(millis / 1000)
    if not Path(until).exists():
        raise RuntimeError(f"fall {job.failures + 1}, and not the last one")
    return job.failures


# What only some runners serve.
counted_app = App()
rare_app = App()


@rare_app.task("rare")
async def rare(job: JobContext) -> str:
    """Say who ran it."""
    return os.environ["JOBMESH_RUNNER_ID"]


@counted_app.task("counted")
async def counted(job: JobContext, millis: int) -> None:
    """Write down when it began and ended, in a database that is not jobmesh's."""
    pool = await _pool()
    await pool.execute(
        "INSERT INTO runs (job_id, attempt, begun) VALUES ($1, $2, clock_timestamp())",
        UUID(job.job_id),
        job.attempt,
    )
    await asyncio.sleep(millis / 1000)
    await pool.execute(
        "UPDATE runs SET ended = clock_timestamp() WHERE job_id = $1 AND attempt = $2",
        UUID(job.job_id),
        job.attempt,
    )


COUNTED_TABLE = """CREATE TABLE runs (
    job_id uuid, attempt bigint, begun timestamptz NOT NULL, ended timestamptz,
    PRIMARY KEY (job_id, attempt)
)"""
COUNTED_DSN = "COUNTED_DSN"


@cache
def _pool() -> asyncio.Future[asyncpg.Pool]:
    """One for the process, made with its first job."""

    async def make() -> asyncpg.Pool:
        pool: asyncpg.Pool = await asyncpg.create_pool(
            os.environ[COUNTED_DSN], min_size=1, max_size=4
        )
        return pool

    return asyncio.ensure_future(make())
