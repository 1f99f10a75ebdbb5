"""A process that runs handlers, without the process."""

from __future__ import annotations

import asyncio
from multiprocessing import Pipe

import pytest

from jobmesh import App, JobContext, SyncJobContext
from jobmesh.v1.runner_service_pb2 import Assignment, Report
from jobmesh_runner import worker_messages as m
from jobmesh_runner.worker import Worker

app = App()


@app.task("waits")
async def waits(job: JobContext) -> None:
    await asyncio.sleep(60)


@app.task("waits.sync")
def waits_sync(job: SyncJobContext) -> None:
    job.cancelled.wait(60)


@pytest.mark.parametrize("task", ["waits", "waits.sync"])
def test_a_stop_that_comes_with_the_run_reaches_its_handler(task: str) -> None:
    ours, theirs = Pipe()
    with ours, theirs:
        worker = Worker({task.name: task for task in app.tasks.values()}, theirs)
        assignment = Assignment(job_id="01a22d0f-0210-74f3-9cd5-4e5942dc987f", attempt=1, type=task)
        # As its reading thread does, while the main thread has not looked yet.
        worker._handle(m.Run(1, assignment.SerializeToString(), 1000))
        worker._handle(m.StopHandler(1, "CANCELLED", "enough"))
        begun = worker._runs.get()
        assert begun is not None
        worker._execute(*begun)
        ended = m.decode_from_worker(ours.recv_bytes())
    assert isinstance(ended, m.Ended)
    assert ended.report is not None
    assert Report.FromString(ended.report).WhichOneof("outcome") == "cancelled"
