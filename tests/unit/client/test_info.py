from __future__ import annotations

import pickle
from datetime import UTC, datetime
from typing import Any

import pytest
from google.protobuf.timestamp_pb2 import Timestamp

from jobmesh.client import JobFailed, JobNotSucceeded, JobReason, JobWasCancelled, LogLevel
from jobmesh.client.info import job_info, log_line_of
from jobmesh.client.outcome import result_of
from jobmesh.client.states import HoldReason, short_name, state_number, state_of
from jobmesh.states import State
from jobmesh.v1 import job_pb2


def job(**fields: object) -> job_pb2.Job:
    return job_pb2.Job(**{"job_id": "j", "state": job_pb2.JOB_STATE_QUEUED, **fields})  # type: ignore[arg-type]


def test_a_job_is_read_into_pythons_own_types() -> None:
    message = job(
        spec=job_pb2.JobSpec(type="t", queue="q", priority=7, labels={"a": "b"}),
        hold_reason=job_pb2.HOLD_REASON_MAX_RUNNING,
        create_time=Timestamp(seconds=1),
        progress=job_pb2.Progress(fraction=0.25, message="half of a half"),
        history=[job_pb2.StateChange(revision=1, state=job_pb2.JOB_STATE_QUEUED)],
    )
    info = job_info(message)
    assert (info.type, info.queue, info.priority, info.labels) == ("t", "q", 7, {"a": "b"})
    assert info.state is State.QUEUED
    assert info.hold_reason is HoldReason.MAX_RUNNING
    assert info.create_time == datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC)
    assert info.end_time is None
    assert info.error is None
    assert info.progress is not None
    assert info.progress.message == "half of a half"
    assert info.history[0].reason is JobReason.UNSPECIFIED
    assert info.result is None
    assert info.payload == {}
    assert info.proto is message
    assert not info.done


def test_a_result_is_what_the_handler_returned_even_if_that_is_nothing() -> None:
    succeeded = job_pb2.JOB_STATE_SUCCEEDED
    done = job(state=succeeded, result=job_pb2.Payload(data=b'{"rows":1000}'))
    assert result_of(job_info(done)) == {"rows": 1000}
    assert result_of(job_info(job(state=succeeded, result=job_pb2.Payload(data=b"null")))) is None


def test_a_dead_job_has_no_result_but_an_error() -> None:
    dead = job_info(
        job(
            state=job_pb2.JOB_STATE_DEAD,
            attempt=2,
            error=job_pb2.JobError(type="ValueError", message="no such month"),
        )
    )
    with pytest.raises(JobFailed, match=r"attempt 2: ValueError: no such month") as caught:
        result_of(dead)
    assert caught.value.job is dead
    assert isinstance(caught.value, JobNotSucceeded)


def test_a_cancelled_job_has_no_result_but_a_reason() -> None:
    stopped = job_info(job(state=job_pb2.JOB_STATE_CANCELLED, cancel_reason="not needed"))
    with pytest.raises(JobWasCancelled, match="cancelled: not needed"):
        result_of(stopped)


def test_what_a_handler_raises_when_it_is_told_to_stop_is_another_thing() -> None:
    import jobmesh

    assert not issubclass(JobWasCancelled, jobmesh.JobCancelled)


def test_the_exceptions_can_be_pickled() -> None:
    error = JobFailed(job_info(job(state=job_pb2.JOB_STATE_DEAD)))
    assert str(pickle.loads(pickle.dumps(error))) == str(error)


@pytest.mark.parametrize("state", State)
def test_every_state_is_known_by_both_its_names(state: State) -> None:
    number = state_number(state.value)
    assert state_number(f"JOB_STATE_{state}".lower()) == number
    assert state_of(number) is state


def names_of(kind: Any) -> list[str]:
    return [value.name for value in kind.DESCRIPTOR.values]


def test_the_states_and_reasons_are_those_of_the_contract() -> None:
    for ours, theirs in ((JobReason, job_pb2.JobReason), (HoldReason, job_pb2.HoldReason)):
        assert [member.value for member in ours] == [short_name(n) for n in names_of(theirs)]
    assert {short_name(name) for name in names_of(job_pb2.JobState)} == {"", *State}


def test_an_unknown_state_is_refused_with_those_there_are() -> None:
    with pytest.raises(ValueError, match="QUEUED, RUNNING"):
        state_number("SLEEPING")


def test_a_reason_of_a_newer_mesh_is_no_error() -> None:
    assert JobReason.of(job_pb2.JobReason, 9999) is JobReason.UNSPECIFIED


def test_a_log_line_is_read() -> None:
    line = log_line_of(job_pb2.LogLine(sequence=1, level=job_pb2.LOG_LEVEL_WARNING, message="m"))
    assert (line.level, line.message, line.time) == (LogLevel.WARNING, "m", None)
