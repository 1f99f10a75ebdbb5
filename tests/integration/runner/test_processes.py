"""Handlers in processes of their own: they say all that others do, and harm nobody."""

from __future__ import annotations

import asyncio
import os
import re
import signal
from pathlib import Path

import pytest

from jobmesh.v1.runner_service_pb2 import Assignment
from tests.integration.runner.conftest import Start
from tests.integration.runner.peer import LEASE_LOST, Link, Peer, Rules, job, result_of
from tests.support.process import ServiceProcess
from tests.support.wait import until

APP = "tests.integration.runner.process_handlers:app"
TIMEOUT = 60.0  # processes take their time to start on a busy machine


async def begin(peer: Peer, process: ServiceProcess) -> Link:
    await process.start()
    return await peer.link()


def suspect(claim: Assignment) -> Assignment:
    """As it is assigned after a runner was lost that had it."""
    claim.suspect = True
    return claim


def said(link: Link, pattern: str) -> int | None:
    """The number that a handler logged after these words."""
    found = re.search(rf"^{pattern} (\d+)$", "\n".join(link.lines), re.MULTILINE)
    return int(found[1]) if found else None


async def begun(link: Link, claim: Assignment) -> None:
    await until(lambda: claim.job_id in link.started, TIMEOUT)


async def gone(pid: int) -> None:
    def is_gone() -> bool:
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return True
        # It may be nobody's child by now, and not be reaped yet.
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"

    await until(is_gone, 20, f"the end of process {pid}", 0.05)


async def test_a_handler_runs_where_its_task_says_and_processes_are_used_again(
    peer: Peer, runner: Start
) -> None:
    process = runner(peer, app=APP)
    link = await begin(peer, process)
    link.assign(here := job("where"), apart := job("where.process"))
    assert result_of(await link.report_of(here)) == process.pid
    first = result_of(await link.report_of(apart, TIMEOUT))
    assert first["pid"] != process.pid
    assert first["main"]
    link.assign(again := job("where.process.sync"))
    assert result_of(await link.report_of(again, TIMEOUT)) == first
    assert await process.terminate() == 0
    await gone(first["pid"])


async def test_from_a_process_a_handler_says_all_that_others_do(peer: Peer, runner: Start) -> None:
    link = await begin(peer, runner(peer, app=APP))
    claim = job("talk", attempt=2, n=3)
    claim.checkpoint.data = b'{"n":1}'
    link.assign(claim, plain := job("talk.sync", n=5, timeout=600))
    report = await link.report_of(claim, TIMEOUT)
    assert result_of(report) == {"restored": {"n": 1}, "first": 3, "again": 3, "attempt": 2}
    last = report.progress if report.HasField("progress") else link.progress[-1].progress
    assert (last.message, last.current, last.total) == ("step 3", 3, 3)
    assert result_of(await link.report_of(plain, TIMEOUT)) == {"first": 5, "deadline": True}
    assert {c.checkpoint.data for c in link.checkpoints} == {b'{"n":3}', b'{"n":5}'}
    await until(lambda: {"in a process"} <= set(link.lines))


@pytest.mark.parametrize(
    ("how", "why"),
    [
        ("segfault", "SIGSEGV"),
        ("exit", "exit code 3"),
        ("kill", "SIGKILL"),
        ("abort", "SIGABRT"),
    ],
)
async def test_a_process_that_dies_is_a_failure_of_that_attempt_alone(
    peer: Peer, runner: Start, how: str, why: str
) -> None:
    link = await begin(peer, runner(peer, app=APP))
    link.assign(good := job("wait", seconds=2), bad := job("die", how=how))
    report = await link.report_of(bad, TIMEOUT)
    error = report.failed.error
    assert (error.type, error.retryable) == ("HandlerProcessDied", True)
    assert why in error.message
    assert not report.failed.crashed
    assert report.run_seconds > 0
    if how == "segfault":
        assert "process_handlers.py" in error.traceback  # where it was
    assert result_of(await link.report_of(good, TIMEOUT)) == "waited"
    link.assign(after := job("where.process"))
    assert result_of(await link.report_of(after, TIMEOUT))["main"]


async def test_a_handler_without_memory_fails_and_its_neighbours_have_theirs(
    peer: Peer, runner: Start
) -> None:
    link = await begin(peer, runner(peer, app=APP))
    link.assign(bad := job("die.sync", how="memory"))
    error = (await link.report_of(bad, TIMEOUT)).failed.error
    assert error.type in ("MemoryError", "HandlerProcessDied")


async def test_a_suspect_is_tried_in_a_process_and_its_crash_is_told(
    peer: Peer, runner: Start
) -> None:
    process = runner(peer, app=APP)
    link = await begin(peer, process)
    link.assign(good := suspect(job("where")), bad := suspect(job("die.here", how="exit")))
    assert result_of(await link.report_of(good, TIMEOUT)) != process.pid
    report = await link.report_of(bad, TIMEOUT)
    assert report.failed.crashed
    assert report.failed.error.type == "HandlerProcessDied"
    link.assign(plain := job("where"))
    assert result_of(await link.report_of(plain)) == process.pid


async def test_a_handler_in_a_process_is_told_to_stop(peer: Peer, runner: Start) -> None:
    link = await begin(peer, runner(peer, app=APP))
    claims = [job("wait"), job("wait.sync")]
    link.assign(*claims)
    await until(lambda: sum(line.startswith("pid ") for line in link.lines) == 2, TIMEOUT)
    for claim in claims:
        link.cancel(claim, "enough")
    for claim in claims:
        report = await link.report_of(claim, TIMEOUT)
        assert report.WhichOneof("outcome") == "cancelled"
        assert not report.cancelled.abandoned
    await until(lambda: link.lines.count("told: the job was cancelled: enough") == 2)


@pytest.mark.parametrize("task", ["wait", "wait.sync"])
async def test_a_stop_that_comes_before_the_handler_is_called_is_not_lost(
    peer: Peer, runner: Start, task: str
) -> None:
    link = await begin(peer, runner(peer, app=APP))
    for _ in range(10):
        link.assign(claim := job(task))
        await begun(link, claim)
        link.cancel(claim, "enough")
        report = await link.report_of(claim, TIMEOUT)
        assert report.WhichOneof("outcome") == "cancelled"
        assert not report.cancelled.abandoned


async def test_one_that_does_not_stop_is_killed_with_what_it_started(
    peer: Peer, runner: Start
) -> None:
    link = await begin(peer, runner(peer, app=APP))
    link.assign(claim := job("deaf"))
    await until(lambda: said(link, "child"), TIMEOUT)
    link.cancel(claim, grace=0.2)
    report = await link.report_of(claim, TIMEOUT)
    assert report.cancelled.abandoned
    for name in ("pid", "child"):
        pid = said(link, name)
        assert pid is not None
        await gone(pid)


async def test_a_timeout_counts_from_the_handlers_start_and_ends_its_process(
    peer: Peer, runner: Start
) -> None:
    link = await begin(peer, runner(peer, app=APP, cancel_grace_seconds=0.3))
    link.assign(slow := job("deaf", timeout=2), quick := job("where.process", timeout=0.5))
    report = await link.report_of(slow, TIMEOUT)
    assert report.failed.timed_out
    assert report.failed.error.type == "TimeoutError"
    assert result_of(await link.report_of(quick, TIMEOUT))["main"]  # however long its process took
    pid = said(link, "pid")
    assert pid is not None
    await gone(pid)


async def test_an_error_of_a_handler_keeps_its_kind(peer: Peer, runner: Start) -> None:
    link = await begin(peer, runner(peer, app=APP))
    link.assign(claim := job("fail"), wrong := job("talk", n="three"))
    failed = (await link.report_of(claim, TIMEOUT)).failed
    assert (failed.error.type, failed.error.retryable) == ("PermanentError", False)
    failed = (await link.report_of(wrong, TIMEOUT)).failed
    assert failed.error.type == "InvalidArguments"


async def test_a_lost_lease_reaches_the_process(peer: Peer, runner: Start) -> None:
    peer.rules = Rules(stores_checkpoints=False)
    link = await begin(peer, runner(peer, app=APP))
    link.assign(claim := job("lost"))
    await until(lambda: link.checkpoints, TIMEOUT)
    link.stored(link.checkpoints[0], LEASE_LOST)
    link.assign(after := job("where.process"))
    await link.report_of(after, TIMEOUT)
    assert claim.job_id not in {report.job_id for report in link.reports}


async def test_a_killed_runner_leaves_no_process_behind(peer: Peer, runner: Start) -> None:
    process = runner(peer, app=APP)
    link = await begin(peer, process)
    link.assign(job("wait"))
    pid = await until(lambda: said(link, "pid"), TIMEOUT)
    assert pid is not None
    os.kill(process.pid, signal.SIGKILL)
    assert process.child is not None
    await asyncio.wait_for(process.child.wait(), 10)
    await gone(pid)


async def test_a_drain_interrupts_what_runs_in_processes(peer: Peer, runner: Start) -> None:
    process = runner(peer, app=APP, drain_grace_seconds=2)
    link = await begin(peer, process)
    link.assign(nice := job("wait"), deaf := job("deaf"))
    await until(lambda: said(link, "child"), TIMEOUT)
    await begun(link, nice)
    assert await process.terminate() == 0
    for claim in (nice, deaf):
        assert (await link.report_of(claim)).WhichOneof("outcome") == "interrupted"
    child = said(link, "child")
    assert child is not None
    await gone(child)
