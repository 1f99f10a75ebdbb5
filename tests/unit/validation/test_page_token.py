"""Page tokens: read back exactly, and refused anywhere else."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from jobmesh.errors import InvalidField
from jobmesh.ids import id_text
from jobmesh.page_token import (
    JobPosition,
    job_token,
    parse_job_token,
    parse_queue_token,
    queue_token,
)
from jobmesh.v1.job_pb2 import JobFilter
from jobmesh.v1.job_service_pb2 import JobOrder, ListJobsRequest

positions = st.builds(
    JobPosition, st.integers(-(2**63), 2**63 - 1), st.binary(min_size=16, max_size=16).map(id_text)
)
POSITION = JobPosition(1_790_000_000_000_000, "0199c0de-0000-7000-8000-000000000000")


def listing(order: int = 0, **wanted: object) -> ListJobsRequest:
    request = ListJobsRequest(filter=JobFilter(**wanted))  # type: ignore[arg-type]
    request.order = JobOrder.ValueType(order)
    return request


@given(positions)
def test_a_token_is_read_back(position: JobPosition) -> None:
    request = listing(queues=["a"], labels={"x": "y", "a": "b"})
    request.page_token = job_token("default", request, position)
    request.page_size = 7
    assert parse_job_token("default", request) == position


def test_the_first_page_has_none() -> None:
    assert parse_job_token("default", listing()) is None
    assert parse_queue_token("default", "") == ""


def test_the_default_order_is_newest_first() -> None:
    request = listing(order=JobOrder.JOB_ORDER_NEWEST_FIRST)
    request.page_token = job_token("default", listing(), POSITION)
    assert parse_job_token("default", request) == POSITION


@pytest.mark.parametrize(
    "other",
    [
        ("default", listing(order=2, queues=["a"])),
        ("default", listing(queues=["b"])),
        ("default", listing()),
        ("another", listing(queues=["a"])),
    ],
)
def test_a_token_is_good_for_its_own_list_only(other: tuple[str, ListJobsRequest]) -> None:
    namespace, request = other
    request.page_token = job_token("default", listing(queues=["a"]), POSITION)
    with pytest.raises(InvalidField) as caught:
        parse_job_token(namespace, request)
    assert caught.value.field == "page_token"


@given(st.text(max_size=80))
def test_nonsense_is_refused(token: str) -> None:
    request = listing()
    request.page_token = token
    if token:
        with pytest.raises(InvalidField):
            parse_job_token("default", request)
        with pytest.raises(InvalidField):
            parse_queue_token("default", token)


@example(16, "/")  # which some decoders take for the underscore of our alphabet
@given(st.integers(0, 43), st.characters(codec="ascii"))
def test_a_damaged_token_is_refused(index: int, char: str) -> None:
    request = listing()
    token = job_token("default", request, POSITION)
    request.page_token = token[:index] + char + token[index + 1 :]
    if request.page_token != token:
        with pytest.raises(InvalidField):
            parse_job_token("default", request)


def test_a_token_of_queues_is_none_of_jobs() -> None:
    token = queue_token("default", "reports")
    assert parse_queue_token("default", token) == "reports"
    with pytest.raises(InvalidField):
        parse_job_token("default", ListJobsRequest(page_token=token))
    with pytest.raises(InvalidField):
        parse_queue_token("another", token)
