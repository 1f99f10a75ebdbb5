from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from jobmesh import App, InvalidArguments, JobContext, PayloadTooLarge, Retry
from jobmesh.client.chunks import chunks
from jobmesh.client.grouping import MOST_BYTES, MOST_JOBS
from jobmesh.client.options import SubmitOptions
from jobmesh.client.submission import Submission, prepare
from jobmesh.v1 import job_pb2, job_service_pb2

app = App()


@app.task("reports.generate", queue="reports", timeout="10m", retry=Retry(max_attempts=3))
async def generate(job: JobContext, month: str, rows: int = 1000) -> dict[str, int]:
    return {month: rows}


def spec_of(task: Any, options: SubmitOptions | None = None, **arguments: Any) -> job_pb2.JobSpec:
    return prepare(task, arguments, options or SubmitOptions()).request.job


def test_a_task_brings_its_own_options() -> None:
    spec = spec_of(generate, month="2026-10")
    assert (spec.type, spec.queue, spec.timeout.seconds) == ("reports.generate", "reports", 600)
    assert spec.retry_policy.max_attempts == 3
    assert msgspec.json.decode(spec.payload.data) == {"month": "2026-10"}
    assert spec.payload.content_type == "application/json"


def test_the_callers_options_win_over_the_tasks() -> None:
    options = SubmitOptions(
        queue="q",
        priority=9,
        timeout=90,
        retry=Retry(max_attempts=7),
        labels={"a": "b"},
        delay="5m",
    )
    spec = spec_of(generate, options, month="2026-10")
    assert (spec.queue, spec.priority, spec.timeout.seconds) == ("q", 9, 90)
    assert spec.retry_policy.max_attempts == 7
    assert dict(spec.labels) == {"a": "b"}
    assert spec.delay.seconds == 300


def test_an_option_that_is_no_option_or_no_time_is_refused_by_its_name() -> None:
    with pytest.raises(TypeError, match="no option 'bogus'; there are queue, priority"):
        SubmitOptions().merged(bogus=1)
    for name in ("deadline", "run_at"):
        for wrong in ("tomorrow", datetime.now(UTC).replace(tzinfo=None)):
            options = SubmitOptions().merged(**{name: wrong})
            with pytest.raises(ValueError, match=f"^{name}: "):
                spec_of(generate, options, month="2026-10")


def test_wrong_arguments_of_a_task_are_refused_before_anything_is_sent() -> None:
    with pytest.raises(InvalidArguments) as caught:
        spec_of(generate, month="2026-10", rows="many")
    assert caught.value.field == "rows"


def test_a_type_known_by_name_takes_any_arguments_also_those_called_like_options() -> None:
    spec = spec_of("mail.send", queue="letters", timeout=3)
    assert spec.type == "mail.send"
    assert spec.queue == ""
    assert msgspec.json.decode(spec.payload.data) == {"queue": "letters", "timeout": 3}


def test_what_is_no_task_is_refused() -> None:
    with pytest.raises(TypeError, match="is no task"):
        spec_of(len)


def test_every_submission_has_a_request_id_of_its_own_unless_it_is_given_one() -> None:
    first, second = (prepare("t", {}, SubmitOptions()).request_id for _ in range(2))
    assert first
    assert first != second
    assert prepare("t", {}, SubmitOptions(request_id="mine")).request_id == "mine"


def test_arguments_that_no_mesh_takes_are_refused_here() -> None:
    with pytest.raises(PayloadTooLarge, match=r"job.payload: is 4194\d+ bytes"):
        spec_of("t", text="x" * (4 << 20))


def test_options_that_exclude_each_other_are_refused() -> None:
    now = datetime.now(UTC)
    with pytest.raises(ValueError, match="either delay or run_at"):
        SubmitOptions(delay=1, run_at=now)
    assert SubmitOptions(delay=1).merged(run_at=now).delay is None
    assert SubmitOptions(run_at=now).merged(delay=1).run_at is None


@pytest.mark.parametrize("priority", [-1, 10, 4.5])
def test_a_priority_out_of_bounds_is_refused(priority: Any) -> None:
    with pytest.raises(ValueError, match="priority: must be 0 to 9"):
        SubmitOptions(priority=priority)


def test_an_option_that_does_not_exist_is_refused() -> None:
    with pytest.raises(TypeError, match="colour"):
        SubmitOptions().merged(colour="red")


def test_labels_are_added_to_those_there_are() -> None:
    options = SubmitOptions(labels={"a": "1"}).merged(labels={"b": "2"})
    assert options.labels == {"a": "1", "b": "2"}
    assert options.merged(priority=1).labels == {"a": "1", "b": "2"}


def test_a_time_without_zone_is_refused() -> None:
    naive = datetime(2026, 1, 1)  # noqa: DTZ001
    with pytest.raises(ValueError, match="no time zone"):
        spec_of("t", SubmitOptions(run_at=naive))
    later = datetime(2026, 1, 1, tzinfo=UTC) + timedelta(hours=1)
    assert spec_of("t", SubmitOptions(run_at=later)).run_at.ToDatetime(UTC) == later


@given(st.lists(st.integers(1, 50)), st.integers(1, 5), st.integers(1, 100))
def test_chunks_keep_order_and_limits(sizes: list[int], most_items: int, most_bytes: int) -> None:
    items = [Submission(job_service_pb2.SubmitJobRequest(), size) for size in sizes]
    runs = list(chunks(items, most_items, most_bytes))
    assert [item for run in runs for item in run] == items
    for run in runs:
        assert 1 <= len(run) <= most_items
        assert len(run) == 1 or sum(item.size for item in run) <= most_bytes


def of_size(data: int) -> Submission:
    request = job_service_pb2.SubmitJobRequest(request_id="r")
    request.job.payload.data = b"x" * data
    return Submission(request, request.ByteSize())


# As many small jobs in a row, or a few large ones, as make a batch.
SMALL = st.tuples(st.integers(0, 3000), st.integers(1, 5000))
LARGE = st.tuples(st.integers(100_000, 4 << 20), st.integers(1, 3))


@settings(max_examples=30)
@example([(2000, 5000)])
@example([(0, 10_001)])
@example([(4 << 20, 2), (0, 3)])
@given(st.lists(SMALL | LARGE, min_size=1, max_size=5))
def test_no_batch_is_larger_on_the_wire_than_a_gateway_takes(runs: list[tuple[int, int]]) -> None:
    jobs = [job for size, count in runs for job in [of_size(size)] * count]
    for chunk in chunks(jobs, MOST_JOBS, MOST_BYTES):
        batch = job_service_pb2.BatchSubmitJobsRequest(
            requests=[job.request for job in chunk], partial=True
        )
        assert batch.ByteSize() <= MOST_BYTES
        assert len(batch.requests) <= MOST_JOBS
