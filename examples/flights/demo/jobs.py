"""The two jobs of the demo, watched."""

from __future__ import annotations

import os
import signal
from contextlib import aclosing
from dataclasses import dataclass
from pathlib import Path

from rich.markup import escape

from examples.flights.app import import_flights, report_delays
from examples.flights.demo.failure import DemoFailed, require
from examples.flights.demo.mesh import Mesh
from examples.flights.demo.screen import Screen, Show
from jobmesh import Client, JobHandle
from jobmesh.client.events import CheckpointStored, Event, Logged, ProgressMade, StateChanged
from jobmesh.client.outcome import result_of

KILL_AT = 0.35
"""How far the import is when its runner is killed: far enough to have something to lose."""

WAIT = 10.0
"""Seconds for reading a job that has ended."""


@dataclass
class ImportWatch:
    """Shows the import, and kills its runner at its first checkpoint past `KILL_AT`."""

    mesh: Mesh
    job: JobHandle
    screen: Screen
    show: Show
    fraction: float = 0.0
    killed_at_row: int | None = None
    """The row of the checkpoint that was durable when the runner was killed."""

    async def on(self, event: Event) -> None:
        match event:
            case ProgressMade(progress):
                self.fraction = progress.fraction
                self.show(progress)
            case CheckpointStored() if self.killed_at_row is None and self.fraction >= KILL_AT:
                await self.kill()
            case StateChanged(change):
                why = f" ({change.reason})" if change.reason else ""
                self.screen.step(f"import is {change.state}{why}, attempt {change.attempt}")
            case Logged(line):
                self.screen.step(f"[cyan]handler says:[/] {escape(line.message)}")
            case _:
                pass

    async def kill(self) -> None:
        job = await self.job.get()
        require(job.checkpoint is not None, "a checkpoint was announced but is not with the job")
        pid = self.mesh.pid(job.runner_id)
        self.killed_at_row = int(job.checkpoint["next_row"])
        os.kill(pid, signal.SIGKILL)
        checkpoint = f"checkpoint {job.checkpoint} is durable"
        self.screen.step(f"[bold red]SIGKILL[/] to {job.runner_id} (pid {pid}): {checkpoint}")


async def import_through_a_kill(client: Client, mesh: Mesh, screen: Screen) -> None:
    job = await client.submit(import_flights)
    screen.step(f"submitted flights.import as {job.id}")
    with screen.progress("import") as show:
        watch = ImportWatch(mesh, job, screen, show)
        async with aclosing(job.watch(include=("progress", "checkpoint", "log"))) as events:
            async for event in events:
                await watch.on(event)
    ended = await job.wait(WAIT)
    check_resumed(ended.attempt, result_of(ended), watch, screen)


def check_resumed(attempt: int, result: dict[str, int], watch: ImportWatch, screen: Screen) -> None:
    if watch.killed_at_row is None:
        raise DemoFailed("the import was over before its runner could be killed")
    started = result["started_at"]
    require(attempt >= 2, f"the import succeeded at attempt {attempt}: nothing was resumed")
    require(
        started >= watch.killed_at_row > 0,
        f"attempt {attempt} started at row {started}, before checkpoint {watch.killed_at_row}",
    )
    checkpoint = {"next_row": started}
    screen.step(f"[green]resumed:[/] attempt {attempt} went on from checkpoint {checkpoint}")


async def write_report(client: Client, path: Path, screen: Screen) -> None:
    job = await client.submit(report_delays, path=str(path))
    screen.step(f"submitted flights.report as {job.id}")
    with screen.progress("report") as show:
        async with aclosing(job.watch(include=("progress",))) as events:
            async for event in events:
                if isinstance(event, ProgressMade):
                    show(event.progress)
    result = await job.result(WAIT)
    size = path.stat().st_size if path.exists() else 0
    require(size == result["bytes"], f"{path} has {size} bytes, not {result['bytes']}")
