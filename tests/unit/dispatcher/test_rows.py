"""Rows turned into messages. The rows here are plain mappings: nothing but their names matters."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any, cast

from google.protobuf.timestamp_pb2 import Timestamp
from hypothesis import given
from hypothesis import strategies as st

from jobmesh.v1.job_pb2 import AttemptOutcome, HoldReason, JobReason, JobState
from jobmesh_dispatcher import rows

ENUMS = [
    (rows.STATES, JobState, "JOB_STATE_"),
    (rows.REASONS, JobReason, "JOB_REASON_"),
    (rows.HOLD_REASONS, HoldReason, "HOLD_REASON_"),
    (rows.OUTCOMES, AttemptOutcome, "ATTEMPT_OUTCOME_"),
]


@given(st.datetimes(timezones=st.just(UTC)))
def test_a_timestamp_is_exact(time: datetime) -> None:
    expected = Timestamp()
    expected.FromDatetime(time)
    assert rows.timestamp(time) == expected


def test_no_time_is_no_timestamp() -> None:
    assert rows.timestamp(None) is None


def test_every_name_of_every_enum_is_known() -> None:
    for known, enum, prefix in ENUMS:
        names = cast(Any, enum).keys()
        assert {prefix + name: number for name, number in known.items() if name} == {
            name: cast(Any, enum).Value(name) for name in names
        }
        assert all(name.startswith(prefix) for name in names)
        assert known[None] == 0


def test_an_attempt_without_an_error_has_none() -> None:
    ended = (1, "r", None, datetime(2026, 1, 1, tzinfo=UTC), "SUCCEEDED", "", "", True)
    row = cast(Any, {"state": "SUCCEEDED", "attempts": [ended]})
    (attempt,) = rows.attempts(row)
    assert not attempt.HasField("error")
    assert not attempt.HasField("start_time")
    assert attempt.outcome == AttemptOutcome.ATTEMPT_OUTCOME_SUCCEEDED
