"""Filters, pages, notes, ids and queues."""

from __future__ import annotations

import pytest
from google.protobuf.duration_pb2 import Duration
from google.protobuf.timestamp_pb2 import Timestamp

from jobmesh.errors import InvalidField
from jobmesh.ids import bucket_of, id_bytes, id_text, new_id, parse_job_id
from jobmesh.v1.job_pb2 import JobFilter, RetryPolicy
from jobmesh.v1.queue_pb2 import Queue, RateLimit
from jobmesh.validation import (
    Violations,
    check_filter,
    check_note,
    check_page_size,
    check_queue_settings,
    update_paths,
)


def fields(found: Violations) -> list[str]:
    error = found.error()
    return [field for field, _ in error.violations] if error else []


@pytest.mark.parametrize(
    ("wanted", "field"),
    [
        (JobFilter(queues=["ok", "not ok"]), "filter.queues[1]"),
        (JobFilter(types=["x"] * 101), "filter.types"),
        (JobFilter(states=[1, 99]), "filter.states[1]"),  # type: ignore[list-item]
        (JobFilter(states=[0]), "filter.states[0]"),  # type: ignore[list-item]
        (JobFilter(labels={"a": "\0"}), 'filter.labels["a"]'),
        (JobFilter(runner_id="x" * 201), "filter.runner_id"),
        (JobFilter(parent_job_id="x"), "filter.parent_job_id"),
        (JobFilter(create_time_to=Timestamp(nanos=-1)), "filter.create_time_to"),
        (JobFilter(error_type="\x7f"), "filter.error_type"),
    ],
)
def test_a_bad_filter_names_its_field(wanted: JobFilter, field: str) -> None:
    found = Violations()
    check_filter(wanted, "filter", found)
    assert fields(found) == [field]


def test_an_empty_filter_means_everything() -> None:
    found = Violations()
    check_filter(JobFilter(), "filter", found)
    assert not found


@pytest.mark.parametrize(("size", "good"), [(-1, False), (0, True), (1000, True), (1001, False)])
def test_page_sizes(size: int, good: bool) -> None:
    found = Violations()
    check_page_size(size, "page_size", found)
    assert bool(found) is not good


@pytest.mark.parametrize(
    ("note", "good"),
    [("", True), ("two\nlines\tand a tab", True), ("x" * 1001, False), ("a\0", False)],
)
def test_notes(note: str, good: bool) -> None:
    found = Violations()
    check_note(note, "reason", found)
    assert bool(found) is not good


def test_ids() -> None:
    job_id = new_id()
    assert parse_job_id(job_id.upper()) == job_id
    assert id_text(id_bytes(job_id)) == job_id
    assert bucket_of(job_id) == id_bytes(job_id)[15]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "x",
        "0199c0de",
        "{0199c0de-0000-7000-8000-000000000000}",
        "0199c0de000070008000000000000000",
    ],
)
def test_an_id_that_is_no_uuid_names_the_field(text: str) -> None:
    with pytest.raises(InvalidField) as caught:
        parse_job_id(text, "job_id")
    assert caught.value.field == "job_id"


def masked(queue: Queue, *paths: str) -> tuple[list[str], list[str]]:
    found = Violations()
    chosen = update_paths(queue, paths, "update_mask", found)
    check_queue_settings(queue, chosen, bool(paths), "queue", found)
    return chosen, fields(found)


def test_without_a_mask_what_is_set_is_changed() -> None:
    assert masked(Queue(name="q", max_running=3, etag="1")) == (["max_running"], [])


def test_a_mask_may_reset_what_is_not_set() -> None:
    queue = Queue(name="q", max_depth=7, max_running=5)
    assert masked(queue, "max_running", "default_timeout") == (
        ["max_running", "default_timeout"],
        [],
    )
    assert len(masked(queue, "*")[0]) == 6


@pytest.mark.parametrize(
    "path",
    ["nonsense", "depth", "create_time", "rate_limit", "name", "default_retry_policy.jitter"],
)
def test_a_path_that_cannot_be_changed_is_named(path: str) -> None:
    assert masked(Queue(name="q"), "max_depth", path) == (["max_depth"], ["update_mask.paths[1]"])


@pytest.mark.parametrize(
    ("queue", "field"),
    [
        (Queue(max_running=-1), "queue.max_running"),
        (Queue(max_depth=2**31), "queue.max_depth"),
        (Queue(default_timeout=Duration(seconds=-1)), "queue.default_timeout"),
        (
            Queue(default_retry_policy=RetryPolicy(max_attempts=0)),
            "queue.default_retry_policy.max_attempts",
        ),
        (Queue(rate_limit=RateLimit(limit=1)), "queue.rate_limit"),
        (Queue(pause_note="x"), "queue.pause_note"),
    ],
)
def test_a_bad_setting_is_named(queue: Queue, field: str) -> None:
    assert masked(queue)[1] == [field]
