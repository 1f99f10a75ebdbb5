"""The two jobs: ``jobmesh dev --app examples.flights.app:app`` from the root of the repository.

``FLIGHTS_DSN`` says where the handlers' database is; `jobmesh dev` sets it to the database
`flights` on its embedded server.
"""

from __future__ import annotations

import asyncio
import tempfile
from contextlib import aclosing
from pathlib import Path
from typing import Any

from examples.flights import plots, report
from examples.flights.database import connected, dsn_from_environment
from examples.flights.load import load, load_airlines
from examples.flights.page import Plots, page
from examples.flights.report import NothingToReport, Report
from examples.flights.source import BadSource, airlines, flights_file
from jobmesh import App, JobContext, Retry

MAX_BATCH_ROWS = 20_000

app = App()


@app.task("flights.import", queue="imports", timeout="10m", retry=Retry(max_attempts=5))
async def import_flights(job: JobContext, batch_rows: int = 1000) -> dict[str, int]:
    """Load every flight, `batch_rows` a transaction, going on where an earlier attempt stopped."""
    if not 1 <= batch_rows <= MAX_BATCH_ROWS:
        raise job.permanent(f"batch_rows must be 1 to {MAX_BATCH_ROWS:,}, not {batch_rows:,}")
    try:
        return await import_from(job, row_to_start_at(job.restored), batch_rows)
    except BadSource as error:
        raise job.permanent(str(error)) from error


async def import_from(job: JobContext, start: int, batch_rows: int) -> dict[str, int]:
    source = flights_file()
    total = await asyncio.to_thread(source.count)
    job.log.info("attempt %d starts at row %d of %d", job.attempt, start, total)
    inserted = 0
    async with connected(dsn_from_environment()) as connection:
        await load_airlines(connection, airlines())
        async with aclosing(load(connection, source, start, batch_rows)) as batches:
            async for batch in batches:
                inserted += batch.inserted
                await job.checkpoint({"next_row": batch.next_row})
                message = f"{batch.next_row:,} of {total:,} rows"
                await job.progress(
                    batch.next_row / total, message, current=batch.next_row, total=total
                )
    return {"rows": total, "started_at": start, "inserted": inserted}


def row_to_start_at(checkpoint: Any) -> int:
    return int(checkpoint["next_row"]) if checkpoint else 0


@app.task("flights.report", queue="reports", timeout="5m")
async def report_delays(job: JobContext, path: str = "flights.html") -> dict[str, Any]:
    """Write a page about delays by carrier and month to `path`."""
    try:
        found = await compute(job)
    except NothingToReport as error:
        raise job.permanent(str(error)) from error
    html = page(found, await draw(job, found))
    await job.progress(0.95, f"writing {path}")
    await asyncio.to_thread(write, Path(path), html)
    await job.progress(1.0, f"wrote {path}")
    return {"path": path, "bytes": len(html.encode()), "flights": found.totals.flights}


async def compute(job: JobContext) -> Report:
    async with connected(dsn_from_environment()) as connection:
        await job.progress(0.05, "adding up all flights")
        totals = await report.totals(connection)
        await job.progress(0.15, "delays by carrier")
        carriers = await report.carriers(connection)
        await job.progress(0.25, "delays and cancellations by month")
        months = await report.months(connection)
        await job.progress(0.35, "delays by carrier and month")
        return Report(totals, carriers, months, await report.delays(connection))


async def draw(job: JobContext, found: Report) -> Plots:
    """In threads: matplotlib takes its time, and the loop has other jobs."""
    await job.progress(0.5, "drawing the bars")
    delay_bars = await asyncio.to_thread(plots.delay_bars, found)
    await job.progress(0.65, "drawing the heatmap")
    heatmap = await asyncio.to_thread(plots.heatmap, found)
    await job.progress(0.8, "drawing the cancellations")
    return Plots(delay_bars, heatmap, await asyncio.to_thread(plots.cancelled_bars, found))


def write(path: Path, html: str) -> None:
    """All or nothing: whoever opens the page finds a whole one."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile(
        "w", encoding="utf-8", dir=path.parent, prefix=f".{path.name}.", delete=False
    ) as file:
        file.write(html)
    written = Path(file.name)
    written.chmod(0o644)
    written.replace(path)
