"""What the benchmark's runner serves."""

from __future__ import annotations

import time

from jobmesh import App, JobContext

app = App()


@app.task("bench.noop", queue="bench")
async def noop(job: JobContext) -> None:
    """Nothing: what is left is the cost of the mesh."""


@app.task("bench.begun", queue="bench")
async def begun(job: JobContext) -> dict[str, int]:
    """When the handler began, by the machine's monotonic clock, which all its processes share."""
    return {"monotonic_ns": time.monotonic_ns()}
