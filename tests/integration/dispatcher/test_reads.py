"""Reading jobs, live and ended."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from itertools import chain
from typing import Any
from uuid import UUID

import pytest
from google.protobuf.timestamp_pb2 import Timestamp

from jobmesh.errors import InvalidField, NotFound
from jobmesh.ids import new_id
from jobmesh.page_token import JobPosition
from jobmesh.v1.job_pb2 import (
    AttemptOutcome,
    HoldReason,
    Job,
    JobError,
    JobFilter,
    JobReason,
    JobSpec,
    JobState,
    JobView,
    LogLevel,
    Progress,
)
from jobmesh.v1.job_service_pb2 import JobOrder, ListJobsRequest
from jobmesh_dispatcher.job_query import filter_arguments, position_arguments
from jobmesh_dispatcher.sql import load
from jobmesh_dispatcher.store import reads
from jobmesh_dispatcher.store.reads import find_jobs, read_attempts, read_jobs, read_log_page
from tests.support.job_rows import CREATED, Connection, insert_ended, insert_live

BASIC = JobView.JOB_VIEW_BASIC
FULL = JobView.JOB_VIEW_FULL
MINUTE = timedelta(minutes=1)


def stamp(time: datetime) -> Timestamp:
    message = Timestamp()
    message.FromDatetime(time)
    return message


def ids(jobs: Iterable[Job]) -> list[str]:
    return [job.job_id for job in jobs]


async def test_jobs_come_in_the_order_asked_for_live_or_ended(connection: Connection) -> None:
    first = await insert_ended(connection)
    second = await insert_live(connection)
    third = await insert_ended(connection, state="DEAD")
    other = await insert_live(connection, namespace="other")
    asked = [third, new_id(), second, other, first, third]
    jobs = await read_jobs(connection, "default", asked, BASIC)
    assert ids(jobs) == [third, second, first, third]


async def test_a_full_job_has_everything(connection: Connection) -> None:
    error = JobError(type="ValueError", message="no", traceback="line 1", retryable=True)
    progress = Progress(fraction=0.5, message="half")
    end = CREATED + 3 * MINUTE
    job_id = await insert_ended(
        connection,
        state="DEAD",
        reason="FAILED",
        revision=3,
        attempt=2,
        failures=2,
        crashes=1,
        spec=JobSpec(queue="default", type="hello", labels={"a": "b"}).SerializeToString(),
        payload=b'{"n":1}',
        runner_id="runner-1",
        start_time=CREATED + MINUTE,
        cancel_reason="never",
        progress=progress.SerializeToString(),
        checkpoint=b"{}",
        checkpoint_type="application/json",
        error=error.SerializeToString(),
        error_type="ValueError",
        schedule_id="nightly",
        result=b"\x00",
        result_type="application/octet-stream",
        end_time=end,
        history=[
            (1, "QUEUED", "UNSPECIFIED", CREATED, 0),
            (2, "RUNNING", "UNSPECIFIED", CREATED + MINUTE, 1),
            (3, "DEAD", "FAILED", end, 1),
        ],
    )
    (job,) = await read_jobs(connection, "default", [job_id], FULL)
    assert job.state == JobState.JOB_STATE_DEAD
    assert job.reason == JobReason.JOB_REASON_FAILED
    assert (job.revision, job.attempt, job.failures, job.crashes) == (3, 2, 2, 1)
    assert job.spec.payload.data == b'{"n":1}'
    assert job.spec.payload.content_type == "application/json"
    assert dict(job.spec.labels) == {"a": "b"}
    assert (job.checkpoint.data, job.result.data) == (b"{}", b"\x00")
    assert job.result.content_type == "application/octet-stream"
    assert (job.progress, job.error) == (progress, error)
    assert (job.runner_id, job.schedule_id, job.cancel_reason) == ("runner-1", "nightly", "never")
    assert job.create_time == stamp(CREATED)
    assert job.start_time == stamp(CREATED + MINUTE)
    assert job.end_time == stamp(end)
    assert not job.HasField("next_run_time")
    assert [(c.revision, JobState.Name(c.state), c.attempt) for c in job.history] == [
        (1, "JOB_STATE_QUEUED", 0),
        (2, "JOB_STATE_RUNNING", 1),
        (3, "JOB_STATE_DEAD", 1),
    ]
    assert job.history[2].time == stamp(end)
    assert job.history[2].reason == JobReason.JOB_REASON_FAILED


async def test_a_basic_job_lacks_what_is_large(connection: Connection) -> None:
    error = JobError(type="ValueError", message="no", traceback="line 1")
    job_id = await insert_ended(
        connection,
        state="DEAD",
        error=error.SerializeToString(),
        checkpoint=b"{}",
        result=b"{}",
    )
    (job,) = await read_jobs(connection, "default", [job_id], BASIC)
    assert (job.error.type, job.error.message, job.error.traceback) == ("ValueError", "no", "")
    assert job.spec.type == "hello"
    for field in ("checkpoint", "result"):
        assert not job.HasField(field)
    assert not job.spec.HasField("payload")
    assert not job.history


async def test_live_jobs_say_what_they_wait_for(connection: Connection) -> None:
    held = await insert_live(connection, hold_reason="MAX_RUNNING")
    retrying = await insert_live(connection, state="RETRYING", run_at=CREATED + MINUTE)
    jobs = await read_jobs(connection, "default", [held, retrying], FULL)
    assert jobs[0].hold_reason == HoldReason.HOLD_REASON_MAX_RUNNING
    assert jobs[1].hold_reason == HoldReason.HOLD_REASON_UNSPECIFIED
    assert jobs[1].next_run_time == stamp(CREATED + MINUTE)
    assert not jobs[1].HasField("end_time")


async def test_jobs_of_a_paused_queue_wait_for_that_whatever_held_them_before(
    connection: Connection,
) -> None:
    held = await insert_live(connection, queue="q", hold_reason="MAX_RUNNING")
    await connection.execute(
        "INSERT INTO jobmesh.queues (namespace, name, token, dispatch_paused) "
        "VALUES ('default', 'q', 'q', true)"
    )
    (job,) = await read_jobs(connection, "default", [held], BASIC)
    assert job.hold_reason == HoldReason.HOLD_REASON_QUEUE_PAUSED


async def test_jobs_too_large_for_one_answer_are_refused(
    connection: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reads, "ANSWER_BYTES", 10_000)
    several = [await insert_live(connection, payload=b"x" * 6_000) for _ in range(2)]
    with pytest.raises(InvalidField, match="job_ids"):
        await read_jobs(connection, "default", several, FULL)
    assert len(await read_jobs(connection, "default", several, BASIC)) == 2
    large = await insert_live(connection, payload=b"x" * 20_000)
    (job,) = await read_jobs(connection, "default", [large], FULL)
    assert len(job.spec.payload.data) == 20_000


async def every_page(connection: Connection, **request: Any) -> list[list[str]]:
    pages = []
    token = ""
    while True:
        asked = ListJobsRequest(page_token=token, **request)
        answer = await find_jobs(connection, "default", asked)
        pages.append(ids(answer.jobs))
        token = answer.next_page_token
        if not token:
            return pages


async def some_jobs(connection: Connection, count: int) -> list[str]:
    """Live and ended jobs in turn, the oldest first; each has the time of creation of another."""
    made = []
    for number in range(count):
        created = CREATED + (number // 2) * MINUTE
        # Ids in order of time, so that those of the same time are too.
        job_id = UUID(int=number + 1)
        insert = insert_live if number % 2 else insert_ended
        made.append(await insert(connection, job_id=job_id, create_time=created))
    return made


@pytest.mark.parametrize("size", [1, 2, 3, 7, 50])
async def test_pages_hold_every_job_once_in_order(connection: Connection, size: int) -> None:
    made = await some_jobs(connection, 7)
    newest = await every_page(connection, page_size=size)
    oldest = await every_page(
        connection, page_size=size, order=JobOrder.JOB_ORDER_OLDEST_FIRST, view=FULL
    )
    assert list(chain(*newest)) == made[::-1]
    assert list(chain(*oldest)) == made
    assert [len(page) for page in newest[:-1]] == [size] * (len(newest) - 1)
    assert newest[-1]  # no token that leads to nothing


async def test_a_job_that_comes_meanwhile_shifts_no_page(connection: Connection) -> None:
    made = await some_jobs(connection, 4)
    first = await find_jobs(connection, "default", ListJobsRequest(page_size=2))
    await insert_live(connection, create_time=CREATED + timedelta(days=1))
    asked = ListJobsRequest(page_size=2, page_token=first.next_page_token)
    second = await find_jobs(connection, "default", asked)
    assert ids(first.jobs) + ids(second.jobs) == made[::-1]


async def test_a_token_is_good_for_its_own_list_only(connection: Connection) -> None:
    await some_jobs(connection, 4)
    first = await find_jobs(connection, "default", ListJobsRequest(page_size=2))
    other = ListJobsRequest(page_token=first.next_page_token, filter=JobFilter(queues=["default"]))
    with pytest.raises(InvalidField, match="page_token"):
        await find_jobs(connection, "default", other)


async def test_a_page_of_large_jobs_is_shorter(
    connection: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reads, "PAGE_BYTES", 10_000)
    made = [
        await insert_live(connection, payload=b"x" * size, create_time=CREATED + n * MINUTE)
        for n, size in enumerate([20_000, 100, 100, 6_000, 6_000])
    ]
    pages = await every_page(connection, view=FULL)
    assert pages == [[made[4]], [made[3], made[2], made[1]], [made[0]]]
    assert await every_page(connection) == [made[::-1]]


async def test_every_field_of_a_filter_filters(connection: Connection) -> None:
    parent = new_id()
    one = await insert_live(
        connection,
        queue="q",
        type="t",
        state="RUNNING",
        labels='{"a": "1", "b": "2"}',
        runner_id="r",
        schedule_id="s",
        parent_job_id=UUID(parent),
        create_time=CREATED,
        error_type="E",
    )
    two = await insert_ended(
        connection, create_time=CREATED + MINUTE, end_time=CREATED + 2 * MINUTE, state="DEAD"
    )
    later, end = stamp(CREATED + MINUTE), stamp(CREATED + 2 * MINUTE)
    after_end = stamp(CREATED + 3 * MINUTE)
    cases: list[tuple[JobFilter, list[str]]] = [
        (JobFilter(), [two, one]),
        (JobFilter(queues=["q", "x"]), [one]),
        (JobFilter(queues=["default", "q"]), [two, one]),
        (JobFilter(types=["t"]), [one]),
        (JobFilter(states=[JobState.JOB_STATE_RUNNING]), [one]),
        (JobFilter(states=[JobState.JOB_STATE_RUNNING, JobState.JOB_STATE_CANCELLING]), [one]),
        (JobFilter(states=[JobState.JOB_STATE_RETRYING]), []),
        (JobFilter(states=[JobState.JOB_STATE_DEAD, JobState.JOB_STATE_RUNNING]), [two, one]),
        (JobFilter(states=[JobState.JOB_STATE_SUCCEEDED]), []),
        (JobFilter(labels={"a": "1"}), [one]),
        (JobFilter(labels={"a": "1", "b": "3"}), []),
        (JobFilter(runner_id="r"), [one]),
        (JobFilter(schedule_id="s"), [one]),
        (JobFilter(shard_key="k"), []),
        (JobFilter(parent_job_id=parent), [one]),
        (JobFilter(create_time_from=later), [two]),
        (JobFilter(create_time_to=later), [one]),
        (JobFilter(end_time_from=end), [two]),
        (JobFilter(end_time_to=end), []),
        (JobFilter(end_time_from=end, end_time_to=after_end), [two]),
        (JobFilter(error_type="E"), [one]),
        (JobFilter(error_type="E", queues=["default"]), []),
    ]
    for wanted, expected in cases:
        found = await find_jobs(connection, "default", ListJobsRequest(filter=wanted))
        assert ids(found.jobs) == expected, wanted
    tried = {field.name for wanted, _ in cases for field, _ in wanted.ListFields()}
    assert tried == set(JobFilter.DESCRIPTOR.fields_by_name)


async def test_other_namespaces_are_not_listed(connection: Connection) -> None:
    await insert_live(connection, namespace="other")
    await insert_ended(connection, namespace="other")
    assert not (await find_jobs(connection, "default", ListJobsRequest())).jobs


async def test_a_job_that_ends_meanwhile_is_listed_once(connection: Connection) -> None:
    job_id = await insert_live(connection)
    async with connection.transaction():
        await connection.execute("DELETE FROM jobmesh.jobs_live")
        await insert_ended(connection, job_id=UUID(job_id))
        inside = await find_jobs(connection, "default", ListJobsRequest())
    after = await find_jobs(connection, "default", ListJobsRequest())
    assert ids(inside.jobs) == ids(after.jobs) == [job_id]
    assert after.jobs[0].state == JobState.JOB_STATE_SUCCEEDED


async def many_jobs(connection: Connection) -> None:
    await connection.execute(
        """
        INSERT INTO jobmesh.jobs_live (job_id, namespace, queue, type, priority, state, spec,
            payload, payload_type, create_time, queued_at, history)
        SELECT gen_random_uuid(), 'default', 'q', 't', 4, 'QUEUED', '', '', '',
            now() - number * interval '1 s', now(), '{}'
        FROM generate_series(1, 20000) AS number
        """
    )
    await connection.execute("ANALYZE jobmesh.jobs_live")


async def plan_of(
    connection: Connection, order: str, position: JobPosition | None, wanted: JobFilter
) -> str:
    lines = await connection.fetch(
        f"EXPLAIN {load(f'list_jobs_{order}')}",
        *("default", False, reads.PAGE_BYTES, 51),
        *position_arguments(position),
        *filter_arguments(wanted),
    )
    return "\n".join(line[0] for line in lines)


@pytest.mark.parametrize("order", ["newest", "oldest"])
async def test_a_plain_page_reads_no_more_than_it_shows(connection: Connection, order: str) -> None:
    await many_jobs(connection)
    hour_ago = int((datetime.now(UTC) - timedelta(hours=1)).timestamp() * 1e6)
    for position in (None, JobPosition(hour_ago, new_id())):
        plan = await plan_of(connection, order, position, JobFilter())
        assert "jobs_live_listed on jobs_live" in plan
        assert "Seq Scan on jobs_live" not in plan
        assert "Merge Append" in plan


async def test_a_list_by_state_reads_only_what_may_be_in_it(connection: Connection) -> None:
    await many_jobs(connection)
    running = JobFilter(states=[JobState.JOB_STATE_RUNNING])
    plan = await plan_of(connection, "newest", None, running)
    assert "jobs_live_session on jobs_live" in plan
    assert "jobs_succeeded" not in plan
    retrying = JobFilter(states=[JobState.JOB_STATE_RETRYING])
    assert "jobs_live_due on jobs_live" in await plan_of(connection, "newest", None, retrying)
    dead = JobFilter(states=[JobState.JOB_STATE_DEAD])
    plan = await plan_of(connection, "newest", None, dead)
    assert "jobs_dead" in plan
    assert "jobs_live" not in plan
    assert "jobs_succeeded" not in plan


async def test_attempts_are_told_and_the_running_one_too(connection: Connection) -> None:
    ended = CREATED + MINUTE
    job_id = await insert_live(
        connection,
        state="RUNNING",
        attempt=2,
        runner_id="r2",
        start_time=CREATED + 2 * MINUTE,
        attempts=[(1, "r1", CREATED, ended, "TIMED_OUT", "TimeoutError", "too slow", True)],
    )
    first, second = await read_attempts(connection, "default", job_id)
    assert (first.attempt, first.runner_id) == (1, "r1")
    assert (first.start_time, first.end_time) == (stamp(CREATED), stamp(ended))
    assert first.outcome == AttemptOutcome.ATTEMPT_OUTCOME_TIMED_OUT
    assert first.error == JobError(type="TimeoutError", message="too slow", retryable=True)
    assert (second.attempt, second.runner_id) == (2, "r2")
    assert second.outcome == AttemptOutcome.ATTEMPT_OUTCOME_UNSPECIFIED
    assert not second.HasField("end_time")
    assert not second.HasField("error")


async def test_attempts_of_a_job_that_is_not_there_are_not_found(connection: Connection) -> None:
    job_id = await insert_ended(connection)
    assert await read_attempts(connection, "default", job_id) == []
    with pytest.raises(NotFound):
        await read_attempts(connection, "other", job_id)


async def test_a_log_is_read_in_pages(connection: Connection) -> None:
    job_id = await insert_ended(connection)
    await connection.executemany(
        "INSERT INTO jobmesh.job_logs VALUES ($1, $2, 1, $3, $4, $5)",
        [(UUID(job_id), n, CREATED, LogLevel.LOG_LEVEL_WARNING, f"line {n}") for n in range(1, 6)],
    )
    lines = await read_log_page(connection, "default", job_id, 2, 2)
    assert [(line.sequence, line.message) for line in lines] == [(3, "line 3"), (4, "line 4")]
    assert lines[0].level == LogLevel.LOG_LEVEL_WARNING
    assert (lines[0].attempt, lines[0].time) == (1, stamp(CREATED))
    assert await read_log_page(connection, "default", job_id, 5, 2) == []
    with pytest.raises(NotFound):
        await read_log_page(connection, "other", job_id, 0, 2)
