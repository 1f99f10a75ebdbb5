"""`run_task` runs a handler by itself: contexts of both kinds, seen from a handler."""

from __future__ import annotations

import asyncio
import threading
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import pytest

from jobmesh import (
    App,
    InvalidArguments,
    JobCancelled,
    JobContext,
    NotSerializable,
    PayloadTooLarge,
    PermanentError,
    RetryLater,
    Snooze,
    SyncJobContext,
)
from jobmesh.context import YIELD_EVERY_SECONDS
from jobmesh.testing import JOB_ID, Recorder, Setting, run_task

app = App()


@dataclass
class Cursor:
    row: int


@app.task("async.all")
async def everything(job: JobContext, n: int) -> dict[str, Any]:
    await job.progress(0.25, "begun")
    await job.progress(current=n, total=4)
    await job.progress(message="still there")
    job.log.info("%d of %d", 1, n)
    job.log.warning("100%")
    job.log.error("%s %s", "one")  # noqa: PLE1206
    await job.checkpoint(Cursor(n))
    return {"attempt": job.attempt, "fence": job.fence, "row": job.restored, "id": job.job_id}


@app.task("sync.all")
def everything_sync(job: SyncJobContext, n: int) -> dict[str, Any]:
    job.progress(0.5, "half", current=1, total=2)
    job.log.debug("in a thread: %s", threading.current_thread() is threading.main_thread())
    job.checkpoint({"n": n})
    restored = job.restored_as(Cursor)
    return {"restored": restored, "labels": dict(job.labels), "type": job.type}


async def test_an_async_handler_tells_all_it_can() -> None:
    run = await run_task(everything, n=3, setting=None)

    assert run.result == {"attempt": 1, "fence": 1, "row": None, "id": JOB_ID}
    assert [p.fraction for p in run.progress] == [0.25, 0.75, 0.75]
    assert [p.message for p in run.progress] == ["begun", "", "still there"]
    assert (run.progress[1].current, run.progress[1].total) == (3, 4)
    assert run.checkpoints == [{"row": 3}]
    assert [tuple(line) for line in run.log] == [
        ("INFO", "1 of 3"),
        ("WARNING", "100%"),
        ("ERROR", "%s %s ('one',)"),
    ]


async def test_a_plain_handler_runs_in_a_thread_with_calls_that_block() -> None:
    setting = Setting(restored={"row": 7}, labels={"a": "b"}, attempt=2)

    run = await run_task(everything_sync, setting, n=1)

    assert run.result == {"restored": {"row": 7}, "labels": {"a": "b"}, "type": "sync.all"}
    assert run.checkpoints == [{"n": 1}]
    assert run.log[0].message == "in a thread: False"


async def test_arguments_go_through_json() -> None:
    with pytest.raises(InvalidArguments, match=r"^n: Expected int"):
        await run_task(everything, n="3")


@app.task("bad.result")
async def bad_result() -> object:
    return object()


@app.task("long.result")
async def long_result() -> str:
    return "x" * (1 << 20)


async def test_a_result_must_have_a_json_form_of_at_most_a_mebibyte() -> None:
    with pytest.raises(NotSerializable, match=r"the result \(object\)"):
        await run_task(bad_result)
    with pytest.raises(PayloadTooLarge, match="1048578 bytes, the limit is 1048576"):
        await run_task(long_result)


@app.task("raises")
async def raises(job: JobContext, how: str) -> None:
    match how:
        case "permanent":
            raise job.permanent("no such month")
        case "later":
            raise job.retry_after("10s", "busy")
        case "snooze":
            raise job.snooze("1m")
    job.cancelled.reason = "enough"
    job.cancelled.set()
    job.raise_if_cancelled()


@pytest.mark.parametrize(
    ("how", "error", "text"),
    [
        ("permanent", PermanentError, "no such month"),
        ("later", RetryLater, "busy"),
        ("snooze", Snooze, "to be run again in 60 s"),
        ("cancelled", JobCancelled, "enough"),
    ],
)
async def test_a_handlers_wishes_are_exceptions(
    how: str, error: type[Exception], text: str
) -> None:
    with pytest.raises(error, match=text):
        await run_task(raises, how=how)


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"fraction": 1.0000001}, 1.0),
        ({"fraction": -0.1}, 0.0),
        ({"current": 5, "total": 4}, 1.0),
        ({"message": "m"}, 0.0),
        ({"fraction": 0.2, "current": 1, "total": 2}, 0.2),
    ],
)
def test_the_fraction_is_kept_within_its_bounds(given: dict[str, Any], expected: float) -> None:
    recorder = Recorder()
    SyncJobContext(_Info(), recorder).progress(**given)
    assert recorder.run.progress[0].fraction == expected


@pytest.mark.parametrize(
    "given", [{"fraction": float("nan")}, {"current": -1, "total": 2}, {"total": -1}]
)
def test_nonsense_is_refused(given: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="must"):
        SyncJobContext(_Info(), Recorder()).progress(**given)


def test_a_message_is_cut() -> None:
    recorder = Recorder()
    SyncJobContext(_Info(), recorder).progress(0.5, "x" * 2000)
    assert len(recorder.run.progress[0].message) == 1000


async def test_a_handler_that_only_reports_lets_others_run() -> None:
    job = JobContext(_Info(), Recorder())
    turns = 0

    async def other() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    running = asyncio.create_task(other())
    loop = asyncio.get_running_loop()
    end = loop.time() + 5 * YIELD_EVERY_SECONDS
    while loop.time() < end:
        await job.progress(0.5)
    running.cancel()
    await asyncio.wait({running})
    assert 2 <= turns <= 20


async def test_a_checkpoint_of_another_task_waits_its_turn() -> None:
    recorder = Recorder()
    job = JobContext(_Info(), recorder)
    await asyncio.gather(*(job.checkpoint(n) for n in range(20)))
    assert recorder.run.checkpoints == list(range(20))


def test_log_lines_survive_threads() -> None:
    recorder = Recorder()
    job = SyncJobContext(_Info(), recorder)

    def work(number: int) -> None:
        for line in range(200):
            job.log.info("%d/%d", number, line)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(recorder.run.log) == 800


def test_an_exception_is_logged_with_its_traceback() -> None:
    recorder = Recorder()
    job = SyncJobContext(_Info(), recorder)
    try:
        raise ValueError("broken")
    except ValueError:
        job.log.exception("while %s", "working")
    assert recorder.run.log[0].message.startswith("while working\nTraceback")
    assert recorder.run.log[0].message.endswith("ValueError: broken")


class _Info:
    job_id = JOB_ID
    type = "t"
    queue = "default"
    attempt = 1
    failures = 0
    max_attempts = 5
    labels: dict[str, str] = {}  # noqa: RUF012
    create_time = datetime.now(UTC)
    deadline = None
    checkpoint = None
    steps = 0
