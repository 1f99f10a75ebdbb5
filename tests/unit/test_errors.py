"""Errors keep their class and fields over the wire, and never outgrow it."""

from __future__ import annotations

import pickle

import grpc
import pytest
from google.protobuf import wrappers_pb2
from google.rpc import error_details_pb2, status_pb2
from hypothesis import given
from hypothesis import strategies as st

from jobmesh import errors
from jobmesh.errors import JobmeshError, Resource, from_rpc_error, from_status, to_status
from jobmesh.errors.wire import safe_text

S = grpc.StatusCode
CASES: list[tuple[JobmeshError, S, str]] = [
    (errors.InvalidField("job.type", "is empty"), S.INVALID_ARGUMENT, "INVALID_FIELD"),
    (
        errors.InvalidFields([("a", "is empty"), ("b", "is long")]),
        S.INVALID_ARGUMENT,
        "INVALID_FIELD",
    ),
    (errors.PayloadTooLarge("job.payload", 9, 8), S.INVALID_ARGUMENT, "PAYLOAD_TOO_LARGE"),
    (errors.NotFound.job("j"), S.NOT_FOUND, "JOB_NOT_FOUND"),
    (errors.NotFound.queue("q"), S.NOT_FOUND, "QUEUE_NOT_FOUND"),
    (errors.NotFound.schedule("s"), S.NOT_FOUND, "SCHEDULE_NOT_FOUND"),
    (errors.RequestIdReused("r", "j"), S.ALREADY_EXISTS, "REQUEST_ID_REUSED"),
    (errors.JobAlreadyActive("j", "k"), S.ALREADY_EXISTS, "JOB_ALREADY_ACTIVE"),
    (errors.WrongState("DEAD"), S.FAILED_PRECONDITION, "WRONG_STATE"),
    (errors.RevisionMismatch(1, 2), S.ABORTED, "REVISION_MISMATCH"),
    (errors.EtagMismatch("a", "b"), S.ABORTED, "ETAG_MISMATCH"),
    (errors.QueueFull("q", 10), S.RESOURCE_EXHAUSTED, "QUEUE_FULL"),
    (errors.RateLimited("queue q", 0.25), S.RESOURCE_EXHAUSTED, "RATE_LIMITED"),
    (errors.Unauthenticated("no token"), S.UNAUTHENTICATED, "UNAUTHENTICATED"),
    (errors.NotAllowed("not yours"), S.PERMISSION_DENIED, "NOT_ALLOWED"),
    (errors.BackendUnavailable("postgres"), S.UNAVAILABLE, "BACKEND_UNAVAILABLE"),
    (errors.Overloaded("submissions"), S.UNAVAILABLE, "OVERLOADED"),
    (errors.Draining(), S.UNAVAILABLE, "DRAINING"),
    (errors.LeaseLost("j", 3), S.FAILED_PRECONDITION, "LEASE_LOST"),
    (errors.SessionEnded("s1"), S.FAILED_PRECONDITION, "SESSION_ENDED"),
    (errors.DeadlineExceeded("late"), S.DEADLINE_EXCEEDED, "DEADLINE_EXCEEDED"),
    (errors.Unimplemented("not yet"), S.UNIMPLEMENTED, "UNIMPLEMENTED"),
    (errors.Internal("e1"), S.INTERNAL, "INTERNAL"),
]
BY_REASON = pytest.mark.parametrize(
    ("error", "code", "reason"), CASES, ids=[type(case[0]).__name__ for case in CASES]
)


def details_of(status: status_pb2.Status, kind: type[object]) -> list[object]:
    found = []
    for packed in status.details:
        detail = kind()
        if packed.Unpack(detail):  # type: ignore[arg-type]
            found.append(detail)
    return found


@BY_REASON
def test_each_case_has_its_code_and_reason(error: JobmeshError, code: S, reason: str) -> None:
    status = to_status(error)
    (info,) = details_of(status, error_details_pb2.ErrorInfo)
    assert isinstance(info, error_details_pb2.ErrorInfo)
    assert (status.code, info.reason, info.domain) == (code.value[0], reason, "jobmesh")
    assert status.message == error.message


@BY_REASON
def test_each_case_comes_back_whole(error: JobmeshError, code: S, reason: str) -> None:
    back = from_status(to_status(error))
    assert type(back) is type(error)
    assert back.fields() == error.fields()
    assert back.from_jobmesh
    assert isinstance(back, JobmeshError)
    assert str(back) == error.message


@BY_REASON
def test_each_case_survives_pickle(error: JobmeshError, code: S, reason: str) -> None:
    back = pickle.loads(pickle.dumps(error))
    assert type(back) is type(error)
    assert back.fields() == error.fields()


def test_details_say_which_field_what_is_missing_and_when_to_come_back() -> None:
    (bad,) = details_of(
        to_status(errors.InvalidFields([("a", "x"), ("b", "y")])), error_details_pb2.BadRequest
    )
    (about,) = details_of(to_status(errors.NotFound.job("j1")), error_details_pb2.ResourceInfo)
    (retry,) = details_of(to_status(errors.RateLimited("q", 0.25)), error_details_pb2.RetryInfo)
    assert isinstance(bad, error_details_pb2.BadRequest)
    assert [(v.field, v.description) for v in bad.field_violations] == [("a", "x"), ("b", "y")]
    assert isinstance(about, error_details_pb2.ResourceInfo)
    assert (about.resource_type, about.resource_name) == ("job", "j1")
    assert isinstance(retry, error_details_pb2.RetryInfo)
    assert retry.retry_delay.ToMilliseconds() == 250


any_text = st.text(st.characters(), max_size=2000)  # lone surrogates and NUL included
any_error = st.builds(
    JobmeshError,
    any_text,
    code=st.sampled_from([code for code in S if code is not S.OK]),
    reason=st.text(max_size=200),
    metadata=st.dictionaries(any_text, any_text, max_size=40),
    violations=st.lists(st.tuples(any_text, any_text), max_size=40),
    retry_after=st.none() | st.floats(0, 1e6),
    resource=st.none() | st.builds(Resource, any_text, any_text),
)


@given(any_error)
def test_a_status_fits_in_a_kibibyte_and_its_message_in_a_header(error: JobmeshError) -> None:
    status = to_status(error)
    assert len(status.SerializeToString()) <= 1024
    assert status.message.isascii()
    assert status.message == "" or status.message.isprintable()
    assert len(details_of(status, error_details_pb2.ErrorInfo)) == 1
    assert from_status(status).code is error.code


@given(st.text(max_size=300), st.integers(16, 256))
def test_safe_text_keeps_what_is_safe_already(text: str, limit: int) -> None:
    safe = safe_text(text, limit)
    assert len(safe) <= limit
    if text.isascii() and text.isprintable() and len(text) <= limit:
        assert safe == text


def test_long_lists_of_violations_keep_the_first_ones_legible() -> None:
    error = errors.InvalidFields([(f"requests[{n}].job.type", "is empty") for n in range(1000)])
    (bad,) = details_of(to_status(error), error_details_pb2.BadRequest)
    assert isinstance(bad, error_details_pb2.BadRequest)
    assert bad.field_violations[0].field == "requests[0].job.type"
    assert bad.field_violations[0].description == "is empty"


def rpc_error(code: S, details: str, *trailers: tuple[str, str | bytes]) -> grpc.aio.AioRpcError:
    return grpc.aio.AioRpcError(
        code, grpc.aio.Metadata(), grpc.aio.Metadata(*trailers), details, None
    )


def test_a_call_that_no_jobmesh_answered_becomes_the_nearest_class() -> None:
    error = from_rpc_error(rpc_error(S.UNAVAILABLE, "connection refused"))
    assert type(error) is errors.Unavailable
    assert not error.from_jobmesh
    assert type(from_rpc_error(rpc_error(S.DATA_LOSS, ""))) is JobmeshError
    assert type(from_rpc_error(rpc_error(S.UNAUTHENTICATED, ""))) is errors.Unauthenticated


def test_details_that_cannot_be_read_fall_back_on_the_code() -> None:
    error = from_rpc_error(rpc_error(S.INTERNAL, "x", (errors.DETAILS_KEY, b"\xff\xff")))
    assert (error.code, error.message, error.from_jobmesh) == (S.INTERNAL, "x", False)


def test_details_of_other_systems_are_left_alone() -> None:
    status = status_pb2.Status(code=S.NOT_FOUND.value[0], message="m")
    status.details.add().Pack(error_details_pb2.ErrorInfo(reason="QUEUE_FULL", domain="other"))
    status.details.add().Pack(wrappers_pb2.StringValue(value="x"))
    error = from_status(status)
    assert type(error) is errors.NotFound
    assert error.reason == "NOT_FOUND"
    assert not error.from_jobmesh


def test_an_unknown_reason_of_a_newer_jobmesh_is_kept() -> None:
    newer = JobmeshError("m", code=S.FAILED_PRECONDITION, reason="SHARD_FROZEN")
    back = from_status(to_status(newer))
    assert type(back) is JobmeshError
    assert back.reason == "SHARD_FROZEN"
