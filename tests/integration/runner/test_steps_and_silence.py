"""Steps that are stored once, handlers that must report, and deadlines."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

import pytest

from jobmesh.steps import AT_ONCE
from jobmesh.v1.job_pb2 import Payload
from jobmesh.v1.runner_service_pb2 import Assignment, ReportStatus
from tests.integration.runner.conftest import Start
from tests.integration.runner.peer import LEASE_LOST, Link, Peer, Rules, job, result_of
from tests.support.process import ServiceProcess
from tests.support.wait import until

APP = "tests.integration.runner.process_handlers:app"
TIMEOUT = 60.0


async def begin(peer: Peer, process: ServiceProcess) -> Link:
    await process.start()
    return await peer.link()


def must_report(claim: Assignment, seconds: float = 1.0) -> Assignment:
    claim.heartbeat_timeout.FromMilliseconds(round(seconds * 1000))
    return claim


async def test_a_first_attempt_asks_for_nothing_and_stores_each_step(
    peer: Peer, runner: Start
) -> None:
    link = await begin(peer, runner(peer, app=APP))
    link.assign(claim := job("steps", keys=["a", "b"]))
    assert result_of(await link.report_of(claim)) == ["a by 1", "b by 1"]
    sent = link.all("step")
    assert [(s.key, s.result.data) for s in sent] == [("a", b'"a by 1"'), ("b", b'"b by 1"')]


async def test_a_later_attempt_gets_what_is_stored_and_runs_what_is_not(
    peer: Peer, runner: Start
) -> None:
    link = await begin(peer, runner(peer, app=APP))
    claim = job("steps", attempt=2, keys=["a", "b"])
    claim.steps = 1
    link.steps[claim.job_id, "a"] = Payload(data=b'"a by 1"')
    link.assign(claim)
    assert result_of(await link.report_of(claim)) == ["a by 1", "b by 2"]
    assert [s.HasField("result") for s in link.all("step")] == [False, False, True]


async def test_a_step_that_is_not_answered_is_sent_again_on_a_new_stream(
    peer: Peer, runner: Start
) -> None:
    peer.rules = Rules(stores_steps=False)
    first = await begin(peer, runner(peer, app=APP))
    first.assign(claim := job("steps", keys=["a"]))
    await until(lambda: first.all("step"))
    peer.rules = Rules()
    first.end()
    second = await peer.link(2)
    assert result_of(await second.report_of(claim)) == ["a by 1"]


async def test_a_step_is_sent_again_after_a_while(peer: Peer, runner: Start) -> None:
    peer.rules = Rules(stores_steps=False)
    link = await begin(peer, runner(peer, app=APP))
    link.assign(claim := job("steps", keys=["a"]))
    await until(lambda: len(link.all("step")) == 2, 20)
    one, other = link.all("step")
    assert one == other
    link.settle(one)
    link.settle(other)
    assert result_of(await link.report_of(claim)) == ["a by 1"]


async def test_what_another_one_stored_first_is_what_the_handler_gets(
    peer: Peer, runner: Start
) -> None:
    link = await begin(peer, runner(peer, app=APP))
    claim = job("steps", keys=["a"])  # which does not know of any
    link.steps[claim.job_id, "a"] = Payload(data=b'"a by another"')
    link.assign(claim)
    assert result_of(await link.report_of(claim)) == ["a by another"]


async def test_a_step_too_many_is_a_permanent_failure(peer: Peer, runner: Start) -> None:
    peer.rules = Rules(stores_steps=False)
    link = await begin(peer, runner(peer, app=APP))
    link.assign(claim := job("steps", keys=["a"]))
    await until(lambda: link.all("step"))
    link.settle(link.all("step")[0], ReportStatus.REPORT_STATUS_REFUSED)
    failed = (await link.report_of(claim)).failed
    assert (failed.error.type, failed.error.retryable) == ("TooManySteps", False)


async def test_a_step_of_a_lost_lease_stops_the_handler(peer: Peer, runner: Start) -> None:
    peer.rules = Rules(stores_steps=False)
    link = await begin(peer, runner(peer, app=APP))
    link.assign(claim := job("steps.lost"))
    await until(lambda: link.all("step"))
    link.settle(link.all("step")[0], LEASE_LOST)
    link.assign(after := job("where"))
    await link.report_of(after)
    assert claim.job_id not in {report.job_id for report in link.reports}


async def test_a_handler_that_is_told_to_stop_still_stores_what_it_has_done(
    peer: Peer, runner: Start
) -> None:
    peer.rules = Rules(stores_steps=False)
    link = await begin(peer, runner(peer, app=APP))
    link.assign(claim := job("steps.stopped"))
    await until(lambda: link.all("step"))
    link.cancel(claim)
    await asyncio.sleep(0.3)  # nothing must happen
    assert link.reports == []
    link.settle(link.all("step")[0])
    assert (await link.report_of(claim)).WhichOneof("outcome") == "cancelled"


async def test_a_handler_that_is_told_to_stop_stores_also_what_waits_for_its_turn(
    peer: Peer, runner: Start
) -> None:
    peer.rules = Rules(stores_steps=False)
    link = await begin(peer, runner(peer, app=APP))
    link.assign(claim := job("steps.many", count=40))
    await until(lambda: len(link.all("step")) == AT_ONCE)
    link.cancel(claim)
    await until(settling(link), describe=lambda: sorted(key for _, key in link.steps))
    assert (await link.report_of(claim)).WhichOneof("outcome") == "cancelled"
    assert len(link.steps) == 40


async def test_a_handler_that_fails_beside_its_steps_stores_what_waits_for_its_turn(
    peer: Peer, runner: Start
) -> None:
    peer.rules = Rules(stores_steps=False)
    link = await begin(peer, runner(peer, app=APP))
    link.assign(claim := job("steps.and_a_failure", count=40))
    await until(lambda: len(link.all("step")) == AT_ONCE)
    await until(settling(link), describe=lambda: sorted(key for _, key in link.steps))
    assert (await link.report_of(claim)).WhichOneof("outcome") == "failed"
    assert len(link.steps) == 40


def settling(link: Link) -> Callable[[], bool]:
    """Settles the steps that have come since it was called last; whether a report came."""
    settled = 0

    def is_over() -> bool:
        nonlocal settled
        for step in link.all("step")[settled:]:
            link.settle(step)
            settled += 1
        return bool(link.reports)

    return is_over


@pytest.mark.parametrize("task", ["beat", "beat.process"])
async def test_a_handler_that_falls_silent_is_stopped_and_one_that_reports_is_not(
    peer: Peer, runner: Start, task: str
) -> None:
    link = await begin(peer, runner(peer, app=APP, cancel_grace_seconds=0.3))
    good = must_report(job(task, seconds=2.5))
    bad = must_report(job(task, seconds=0.2, then=3600.0))
    link.assign(good, bad)
    report = await link.report_of(bad, TIMEOUT)
    assert report.failed.timed_out
    assert "has not reported" in report.failed.error.message
    assert 1.0 <= report.run_seconds < 15
    assert result_of(await link.report_of(good, TIMEOUT)) == "beaten"


async def test_whoever_waits_for_the_dispatcher_is_not_silent(peer: Peer, runner: Start) -> None:
    peer.rules = Rules(stores_checkpoints=False)
    link = await begin(peer, runner(peer, app=APP))
    link.assign(claim := must_report(job("checkpoint")))
    await until(lambda: link.checkpoints)
    await asyncio.sleep(2.5)  # longer than it may be silent
    assert link.reports == []
    link.stored(link.checkpoints[0])
    assert result_of(await link.report_of(claim)) == "stored"


async def test_a_handler_is_stopped_at_the_deadline_of_its_job(peer: Peer, runner: Start) -> None:
    link = await begin(peer, runner(peer, app=APP))
    claim = job("beat", seconds=3600.0, timeout=600)
    claim.time_left.FromMilliseconds(1000)
    claim.deadline.GetCurrentTime()
    asked = time.monotonic()
    link.assign(claim)
    report = await link.report_of(claim)
    assert report.failed.timed_out
    assert report.failed.error.message == "the job's deadline has passed"
    assert 0.9 < time.monotonic() - asked < 10
