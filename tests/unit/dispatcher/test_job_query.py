"""Filters and positions as the arguments of statements."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from uuid import UUID

from google.protobuf.timestamp_pb2 import Timestamp
from hypothesis import given
from hypothesis import strategies as st

from jobmesh.page_token import JobPosition
from jobmesh.v1.job_pb2 import JobFilter, JobState
from jobmesh_dispatcher.job_query import filter_arguments, matches_nothing, position_arguments
from jobmesh_dispatcher.sql import load

FROM, LEASED, WAITING = 7, -2, -1  # places in the arguments


def test_the_statements_take_as_many_arguments_as_there_are() -> None:
    given_ones = 4 + len(position_arguments(None)) + len(filter_arguments(JobFilter()))
    for order in ("newest", "oldest"):
        taken = {int(number) for number in re.findall(r"\$(\d+)", load(f"list_jobs_{order}"))}
        assert taken == set(range(1, given_ones + 1))


def test_an_empty_filter_asks_for_nothing() -> None:
    *fields, leased, waiting = filter_arguments(JobFilter())
    assert set(fields) == {None}
    assert not leased
    assert not waiting
    assert not matches_nothing(JobFilter())


def test_states_lose_their_prefix_and_choose_an_index() -> None:
    running = JobFilter(states=[JobState.JOB_STATE_RUNNING, JobState.JOB_STATE_CANCELLING])
    arguments = filter_arguments(running)
    assert arguments[2] == ["RUNNING", "CANCELLING"]
    assert (arguments[LEASED], arguments[WAITING]) == (True, False)
    waiting = JobFilter(states=[JobState.JOB_STATE_RETRYING])
    assert filter_arguments(waiting)[WAITING] is True
    mixed = JobFilter(states=[JobState.JOB_STATE_RUNNING, JobState.JOB_STATE_QUEUED])
    assert (filter_arguments(mixed)[LEASED], filter_arguments(mixed)[WAITING]) == (False, False)


@given(st.datetimes(timezones=st.just(UTC)), st.integers(0, 999))
def test_times_are_rounded_up_to_what_is_stored(time: datetime, nanos: int) -> None:
    exact = Timestamp()
    exact.FromDatetime(time)
    exact.nanos += nanos
    asked = filter_arguments(JobFilter(create_time_from=exact))[FROM]
    assert isinstance(asked, datetime)
    stored = Timestamp()
    stored.FromDatetime(asked)
    difference = stored.ToNanoseconds() - exact.ToNanoseconds()
    assert 0 <= difference < 1000 or asked.year == 9999


@given(st.integers(0, 10**16), st.uuids())
def test_a_position_is_exact(micros: int, job_id: UUID) -> None:
    at, last = position_arguments(JobPosition(micros, str(job_id)))
    assert isinstance(at, datetime)
    assert (at - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1) == micros
    assert last == job_id
