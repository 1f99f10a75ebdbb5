"""The lives of jobs, as their submitter sees them."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path

import nats
import pytest

from jobmesh import Retry
from jobmesh.client import Client, JobFailed, JobHandle, JobInfo
from tests.acceptance import everyday
from tests.support.everyday import is_running
from tests.support.mesh import DevMesh
from tests.support.wait import until

WAIT = 30.0
QUICK = Retry(max_attempts=2, initial_interval="50ms", jitter=0)


def path_of(job: JobInfo) -> str:
    """Its states in order, e.g. ``QUEUED RUNNING SUCCEEDED``; revisions have no gap."""
    assert [change.revision for change in job.history] == list(range(1, job.revision + 1))
    return " ".join(change.state for change in job.history)


async def seconds_between_attempts(job: JobHandle) -> list[float]:
    times = [(attempt.start_time, attempt.end_time) for attempt in await job.attempts()]
    gaps = []
    for (_, ended), (began, _) in pairwise(times):
        assert ended is not None
        assert began is not None
        gaps.append((began - ended).total_seconds())
    return gaps


async def test_success(client: Client) -> None:
    job = await client.submit(everyday.add, a=40, b=2)
    assert job.created
    assert await job.result(WAIT) == 42
    info = await job.get()
    assert path_of(info) == "QUEUED RUNNING SUCCEEDED"
    assert (info.reason, info.attempt, info.failures, info.crashes) == ("COMPLETED", 1, 0, 0)
    assert (info.payload, info.result, info.error) == ({"a": 40, "b": 2}, 42, None)
    assert info.runner_id in ("runner-1", "runner-2")
    assert info.create_time is not None
    assert info.start_time is not None
    assert info.end_time is not None
    assert info.create_time <= info.start_time <= info.end_time


async def test_a_failure_is_retried_with_backoff(client: Client) -> None:
    job = await client.submit(everyday.flaky, failures=2)
    assert await job.result(WAIT) == 3
    info = await job.get()
    once = "RUNNING RETRYING QUEUED"
    assert path_of(info) == f"QUEUED {once} {once} RUNNING SUCCEEDED"
    assert (info.attempt, info.failures) == (3, 2)
    outcomes = [(attempt.outcome, str(attempt.error or "")) for attempt in await job.attempts()]
    assert outcomes == [
        ("FAILED", "ConnectionError: failure 1"),
        ("FAILED", "ConnectionError: failure 2"),
        ("SUCCEEDED", ""),
    ]
    first, second = await seconds_between_attempts(job)
    assert 0.1 <= first < 5
    assert 0.2 <= second < 5


async def test_after_its_last_attempt_a_job_is_dead(client: Client, mesh: DevMesh) -> None:
    job = await client.with_options(retry=QUICK).submit(everyday.fail, text="no more paper")
    with pytest.raises(JobFailed, match="ValueError: no more paper"):
        await job.result(WAIT)
    info = await job.get()
    assert path_of(info) == "QUEUED RUNNING RETRYING QUEUED RUNNING DEAD"
    assert (info.reason, info.attempt, info.failures) == ("FAILED", 2, 2)
    assert info.error is not None
    assert (info.error.type, info.error.message) == ("ValueError", "no more paper")
    assert "everyday.py" in info.error.traceback
    assert "raise ValueError(text)" in info.error.traceback
    letter = await dead_letter(mesh, job.id)
    assert letter["reason"] == "JOB_REASON_FAILED"
    assert (letter["type"], letter["queue"], letter["error_type"]) == (
        "fail",
        "default",
        "ValueError",
    )


async def dead_letter(mesh: DevMesh, job_id: str) -> dict[str, str]:
    """The entry of a job in the stream of dead letters, as anybody may read it."""
    connection = await nats.connect(mesh.nats, connect_timeout=5)
    try:
        letters = await connection.jetstream().pull_subscribe("jm.dead.>", stream="JOBMESH_DEAD")
        while True:
            for message in await letters.fetch(50, timeout=5):
                letter: dict[str, str] = json.loads(message.data)
                if letter["job_id"] == job_id:
                    return letter
    finally:
        await connection.close()


async def test_a_permanent_error_is_not_retried(client: Client) -> None:
    job = await client.submit(everyday.permanent, month="2026-13")
    info = await job.wait(WAIT)
    assert path_of(info) == "QUEUED RUNNING DEAD"
    assert (info.reason, info.attempt) == ("NON_RETRYABLE", 1)
    assert str(info.error) == "PermanentError: no such month: 2026-13"


async def test_an_error_that_the_policy_rules_out_is_not_retried(client: Client) -> None:
    policy = Retry(non_retryable_error_types=(IndexError,))
    job = await client.with_options(retry=policy).submit(everyday.pick, names=["a"], index=5)
    info = await job.wait(WAIT)
    assert (info.state, info.reason, info.attempt) == ("DEAD", "NON_RETRYABLE", 1)


async def test_arguments_that_do_not_fit_name_the_field(client: Client) -> None:
    job = await client.submit("pick", names=["a", 2], index=0)
    info = await job.wait(WAIT)
    assert (info.state, info.reason, info.attempt) == ("DEAD", "NON_RETRYABLE", 1)
    assert info.error is not None
    assert "names[1]" in info.error.message or "names[...]" in info.error.message


async def test_a_snooze_charges_nothing(client: Client) -> None:
    job = await client.submit(everyday.not_now, times=2, seconds=0.2)
    assert await job.result(WAIT) == 3
    info = await job.get()
    once = "RUNNING SCHEDULED QUEUED"
    assert path_of(info) == f"QUEUED {once} {once} RUNNING SUCCEEDED"
    assert (info.attempt, info.failures) == (3, 0)
    outcomes = [attempt.outcome for attempt in await job.attempts()]
    assert outcomes == ["SNOOZED", "SNOOZED", "SUCCEEDED"]
    assert all(0.2 <= gap < 5 for gap in await seconds_between_attempts(job))


async def test_a_handler_says_when_to_come_back(client: Client) -> None:
    """Its policy would have it wait for ten minutes."""
    job = await client.submit(everyday.come_back, seconds=0.3)
    assert await job.result(WAIT) == 1
    (gap,) = await seconds_between_attempts(job)
    assert 0.3 <= gap < 5


async def test_jobs_for_later(client: Client) -> None:
    soon = datetime.now(UTC) + timedelta(seconds=1)
    delayed = await client.with_options(delay="800ms").submit(everyday.add, a=1)
    timed = await client.with_options(run_at=soon).submit(everyday.add, a=2)
    waiting = await delayed.get()
    assert waiting.state == "SCHEDULED"
    assert waiting.create_time is not None
    assert waiting.next_run_time == waiting.create_time + timedelta(seconds=0.8)
    assert (await timed.get()).next_run_time == soon
    for job, due in ((delayed, waiting.next_run_time), (timed, soon)):
        info = await job.wait(WAIT)
        assert path_of(info) == "SCHEDULED QUEUED RUNNING SUCCEEDED"
        assert info.start_time is not None
        assert timedelta() <= info.start_time - due < timedelta(seconds=5)


async def test_a_time_that_has_passed_is_now(client: Client) -> None:
    past = datetime(1999, 12, 31, tzinfo=UTC)
    job = await client.with_options(run_at=past).submit(everyday.add, a=1)
    assert path_of(await job.wait(WAIT)) == "QUEUED RUNNING SUCCEEDED"


async def test_priorities_on_one_slot(client: Client, tmp_path: Path) -> None:
    """The highest first; of one priority, the oldest first."""
    await client.queues.update("one.slot", max_running=1)
    mine = client.with_options(queue="one.slot")
    gate = tmp_path / "gate"
    first = await mine.submit(everyday.hold, path=str(gate))
    await until(lambda: is_running(first), WAIT)
    priorities = [4, 9, 0, 4, 9, 7, 1]
    waiting = [
        await mine.with_options(priority=priority).submit(everyday.brief) for priority in priorities
    ]
    await until(lambda: all_held(waiting), WAIT)
    await until(lambda: about_as_old(waiting), WAIT)
    gate.touch()
    ends = [await job.wait(WAIT) for job in waiting]
    assert await first.result(WAIT) == "released"
    started = sorted(
        range(len(ends)), key=lambda n: ends[n].start_time or datetime.max.replace(tzinfo=UTC)
    )
    assert started == [1, 4, 5, 0, 3, 6, 2]
    assert (await client.queues.get("one.slot")).depth["running"] == 0


async def about_as_old(jobs: list[JobHandle]) -> bool:
    """Whether what counts is their priority, and not that some have waited far longer."""
    first, last = (await jobs[0].get()).create_time, (await jobs[-1].get()).create_time
    assert first
    assert last
    return datetime.now(UTC) - last > 2 * (last - first)


async def all_held(jobs: list[JobHandle]) -> bool:
    return all([(await job.get()).hold_reason == "MAX_RUNNING" for job in jobs])


@pytest.mark.parametrize("task", [everyday.hold, everyday.thread_hold], ids=["async", "thread"])
async def test_an_attempt_that_takes_too_long(client: Client, task: everyday.AnyTask) -> None:
    job = await client.with_options(timeout="300ms", retry=QUICK).submit(task)
    info = await job.wait(WAIT)
    assert (info.state, info.reason) == ("DEAD", "TIMED_OUT")
    assert (info.attempt, info.failures) == (2, 2)
    assert info.error is not None
    assert info.error.type == "TimeoutError"
    assert [attempt.outcome for attempt in await job.attempts()] == ["TIMED_OUT"] * 2
    for change, following in pairwise(info.history):
        assert change.time is not None
        assert following.time is not None
        if change.state == "RUNNING":
            assert 0.3 <= (following.time - change.time).total_seconds() < 5


async def test_a_handler_in_a_thread(client: Client) -> None:
    job = await client.submit(everyday.thread_work, steps=5)
    assert await job.result(WAIT) == {"thread": True, "from": 0}
    info = await job.get()
    assert info.checkpoint == 5
    assert info.progress is not None
    assert (info.progress.fraction, info.progress.message) == (1.0, "step 5")
    assert (info.progress.current, info.progress.total) == (5, 5)
    lines = [line async for line in job.logs()]
    assert [line.message for line in lines] == [f"step {n}" for n in range(1, 6)]
    assert [line.sequence for line in lines] == [1, 2, 3, 4, 5]
    assert {(line.level, line.attempt) for line in lines} == {("INFO", 1)}


async def test_the_last_words_of_a_handler_are_kept(client: Client) -> None:
    """Though it ends as soon as it has said them."""
    jobs = [await client.submit(everyday.last_words, number=n) for n in range(50)]
    for number, job in enumerate(jobs):
        with pytest.raises(JobFailed):
            await job.result(WAIT)
        lines = [line async for line in job.logs()]
        assert [line.message for line in lines] == [f"goodbye {number}"]
        assert lines[0].level == "ERROR"
