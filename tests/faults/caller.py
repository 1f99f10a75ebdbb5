"""A caller in a process of its own: how long a job takes, from its submission to its end.

``python -m tests.faults.caller GATEWAYS`` prints the median of some, in seconds: whoever reads a
thousand streams meanwhile is too busy to tell.
"""

from __future__ import annotations

import statistics
import sys
import time

import uvloop

import jobmesh
from tests.faults import handlers

JOBS = 20
WAIT_SECONDS = 30


async def call(gateways: str) -> float:
    """The median of some jobs, one after the other; the first only warms up."""
    took: list[float] = []
    async with jobmesh.connect(gateways) as mesh:
        for _ in range(JOBS + 1):
            began = time.monotonic()
            job = await mesh.submit(handlers.quick)
            await job.wait(WAIT_SECONDS)
            took.append(time.monotonic() - began)
    return statistics.median(took[1:])


if __name__ == "__main__":
    sys.stdout.write(f"{uvloop.run(call(sys.argv[1]))}\n")
