from __future__ import annotations

import json

from google.protobuf import struct_pb2
from google.protobuf.duration_pb2 import Duration
from google.protobuf.timestamp_pb2 import Timestamp

from jobmesh.cli.json_form import json_form
from jobmesh.v1 import job_pb2, queue_pb2


def test_a_job_is_json_that_programs_like() -> None:
    job = job_pb2.Job(
        job_id="j",
        spec=job_pb2.JobSpec(
            type="t",
            payload=job_pb2.Payload(data=b'{"rows":1152921504606846977}'),
            priority=0,
            timeout=Duration(seconds=1, nanos=500_000_000),
            labels={"team": "a"},
            retry_policy=job_pb2.RetryPolicy(non_retryable_error_types=["ValueError"]),
        ),
        state=job_pb2.JOB_STATE_QUEUED,
        revision=3,
        create_time=Timestamp(seconds=0),
        history=[job_pb2.StateChange(revision=1, state=job_pb2.JOB_STATE_QUEUED)],
    )
    form = json_form(job)
    assert form["spec"] == {
        "type": "t",
        "payload": {"rows": 2**60 + 1},
        "priority": 0,
        "timeout": "1.500s",
        "labels": {"team": "a"},
        "retry_policy": {"non_retryable_error_types": ["ValueError"]},
    }
    assert form["state"] == "QUEUED"
    assert (form["revision"], form["attempt"]) == (3, 0)
    assert form["create_time"] == "1970-01-01T00:00:00Z"
    assert form["history"] == [{"revision": 1, "state": "QUEUED", "attempt": 0}]
    assert "result" not in form
    assert "schedule_id" not in form
    json.dumps(form)


def test_a_result_is_there_even_if_it_is_empty() -> None:
    for data, value in ((b"null", None), (b'""', ""), (b"[]", []), (b"{}", {}), (b"0", 0)):
        job = job_pb2.Job(result=job_pb2.Payload(data=data))
        assert json_form(job)["result"] == value
    text = struct_pb2.Value(string_value="from a Value")
    assert json_form(job_pb2.Job(result=job_pb2.Payload(json=text)))["result"] == "from a Value"


def test_data_that_is_not_json_is_shown_as_such() -> None:
    payload = job_pb2.Payload(data=b"\x89PNG", content_type="image/png")
    assert json_form(payload) == {"content_type": "image/png", "data": "iVBORw=="}


def test_what_a_newer_mesh_says_is_shown_as_its_number() -> None:
    job = job_pb2.Job.FromString(b"\x20\x63")  # state 99
    assert json_form(job)["state"] == "99"


def test_a_queue_is_json() -> None:
    queue = queue_pb2.Queue(name="q", depth=queue_pb2.QueueDepth(queued=2))
    form = json_form(queue)
    assert form["depth"]["queued"] == 2
    assert form["dispatch_paused"] is False
