"""From a caller's request to what a dispatcher stores."""

from __future__ import annotations

import json
from typing import Any

import pytest
from google.protobuf.duration_pb2 import Duration
from google.protobuf.timestamp_pb2 import Timestamp
from hypothesis import given
from hypothesis import strategies as st

from jobmesh.errors import InvalidFields, PayloadTooLarge
from jobmesh.ids import parse_job_id
from jobmesh.v1.dispatch_service_pb2 import JobSubmission
from jobmesh.v1.job_pb2 import JobSpec, JobState, Payload, RestartPolicy
from jobmesh.v1.job_service_pb2 import SubmitJobRequest
from jobmesh.validation import Violations
from jobmesh_gateway.submission import build, check, preview

LIMIT = 1 << 20


def submission(request: SubmitJobRequest) -> JobSubmission:
    found = Violations()
    payload = check(request, found, LIMIT)
    found.raise_any()
    assert payload is not None
    return build(request, payload, "default", "00-trace")


def request(request_id: str = "r", **fields: Any) -> SubmitJobRequest:
    fields.setdefault("type", "a.b")
    return SubmitJobRequest(job=JobSpec(**fields), request_id=request_id)


def test_defaults_are_filled_in_and_the_payload_is_data() -> None:
    asked = request(request_id="")
    asked.job.payload.json.struct_value.update({"b": 2, "a": 1})
    before = SubmitJobRequest.FromString(asked.SerializeToString())
    stored = submission(asked)
    assert parse_job_id(stored.job_id) == stored.job_id
    assert (stored.namespace, stored.traceparent, stored.digest) == ("default", "00-trace", b"")
    assert (stored.job.queue, stored.job.priority) == ("default", 4)
    assert stored.job.restart == RestartPolicy.RESTART_POLICY_ON_FAILURE
    assert stored.job.payload == Payload(data=b'{"a":1,"b":2}', content_type="application/json")
    assert asked == before, "the request is not changed"


def test_an_explicit_priority_of_0_stays() -> None:
    assert submission(request(priority=0)).job.priority == 0


labels = st.dictionaries(st.text("abcdef", min_size=1), st.text("xyz", min_size=1), max_size=8)
contents = st.dictionaries(
    st.text("abc", max_size=3),
    st.integers(-1000, 1000) | st.floats(-5, 5) | st.text("ä", max_size=3),
)


@given(contents, labels, st.randoms())
def test_the_digest_knows_neither_order_nor_form(
    content: dict[str, Any], marks: dict[str, str], random: Any
) -> None:
    shuffled = list(content.items())
    random.shuffle(shuffled)
    by_data = request(
        queue="default",
        priority=4,
        labels=marks,
        payload=Payload(data=json.dumps(dict(shuffled), indent=1).encode()),
    )
    by_json = request(labels=dict(reversed(marks.items())))
    by_json.job.payload.json.struct_value.update(content)
    assert submission(by_data).digest == submission(by_json).digest
    assert len(submission(by_data).digest) == 32


@pytest.mark.parametrize(
    "other",
    [
        {"type": "a.c"},
        {"queue": "q"},
        {"priority": 5},
        {"labels": {"a": "b"}},
        {"payload": Payload(data=b'{"a":1}')},
        {"payload": Payload(data=b"{}", content_type="text/plain")},
        {"delay": Duration(seconds=1)},
    ],
)
def test_other_content_has_another_digest(other: dict[str, Any]) -> None:
    assert submission(request()).digest != submission(request(**other)).digest


def test_the_digest_leaves_the_payload_as_it_was_sent() -> None:
    stored = submission(request(payload=Payload(data=b'{"b": 1.0, "a": 2}')))
    assert stored.job.payload.data == b'{"b": 1.0, "a": 2}'


def test_all_mistakes_are_told_with_the_prefix_of_their_item() -> None:
    asked = request(request_id="\0", type="", payload=Payload(data=b"["))
    found = Violations()
    assert check(asked, found, LIMIT, "requests[3].") is None
    with pytest.raises(InvalidFields) as caught:
        found.raise_any()
    assert [field for field, _ in caught.value.violations] == [
        "requests[3].job.type",
        "requests[3].request_id",
        "requests[3].job.payload.data",
    ]


def test_a_payload_over_the_limit_has_a_reason_of_its_own() -> None:
    with pytest.raises(PayloadTooLarge, match=r"^job\.payload\.data"):
        submission(request(payload=Payload(data=b'"' + b"x" * LIMIT + b'"')))


@pytest.mark.parametrize(
    ("fields", "state"),
    [
        ({}, JobState.JOB_STATE_QUEUED),
        ({"delay": Duration()}, JobState.JOB_STATE_QUEUED),
        ({"delay": Duration(nanos=1)}, JobState.JOB_STATE_SCHEDULED),
        ({"run_at": Timestamp(seconds=1)}, JobState.JOB_STATE_QUEUED),
        ({"run_at": Timestamp(seconds=253_402_300_799)}, JobState.JOB_STATE_SCHEDULED),
    ],
)
def test_a_preview_is_the_job_as_it_would_be(
    fields: dict[str, Any], state: JobState.ValueType
) -> None:
    asked = request(payload=Payload(data=b'{"a":1}'), **fields)
    answered = preview(asked, "default")
    assert answered.created is False
    assert (answered.job.job_id, answered.job.state) == ("", state)
    assert answered.job.spec.queue == "default"
    assert not answered.job.spec.HasField("payload")
    assert asked.job.HasField("payload")
