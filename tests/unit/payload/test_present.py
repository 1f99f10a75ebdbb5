"""Payloads on their way out: `json` where a Value holds them, else `data` as it is stored."""

from __future__ import annotations

import json

import pytest

from jobmesh.payload import present, to_value
from jobmesh.v1.job_pb2 import Job, JobEvent, Payload


def presented(data: bytes, content_type: str = "application/json") -> Payload:
    payload = Payload(data=data, content_type=content_type)
    present(payload)
    return payload


def test_an_object_becomes_a_value() -> None:
    payload = presented(b'{"n":1,"list":[],"empty":{},"null":null,"yes":true,"text":"x"}')
    assert payload.content_type == "application/json"
    fields = payload.json.struct_value.fields
    assert fields["n"].number_value == 1
    assert fields["list"].WhichOneof("kind") == "list_value"
    assert fields["empty"].WhichOneof("kind") == "struct_value"
    assert fields["null"].WhichOneof("kind") == "null_value"
    assert fields["yes"].bool_value is True
    assert fields["text"].string_value == "x"


@pytest.mark.parametrize("data", [b"1", b"[]", b'"x"', b"null", b"false", b"{}"])
def test_any_value_at_the_top(data: bytes) -> None:
    assert presented(data).WhichOneof("content") == "json"


@pytest.mark.parametrize(
    "data",
    [
        b'{"n":9007199254740993}',
        b'{"n":1e300}',
        b'{"a":1,"a":2}',
        b'{"x":{"a":1,"a":2}}',
        b'{"a":"\\ud800"}',
        b"no json",
        b'{"a":NaN}',
        b'{"a":1e400}',
        b'{"a":' + b"9" * 5000 + b"}",
        b"[" * 5000 + b"]" * 5000,
        b"\xff",
    ],
)
def test_what_a_value_cannot_hold_stays_data(data: bytes) -> None:
    assert presented(data) == Payload(data=data, content_type="application/json")


def test_other_content_and_nothing_stay_as_they_are() -> None:
    assert presented(b"{}", "text/plain").data == b"{}"
    empty = Payload()
    present(empty)
    assert empty == Payload()


@pytest.mark.parametrize("text", ["[]", "{}"])
def test_a_value_is_never_too_deep_for_its_receiver(text: str) -> None:
    """What is given out as `json` must still be readable within an event (100 messages deep)."""
    given_as = set()
    for levels in range(1, 101):
        inner = '{"a":' if text == "{}" else "["
        data = (inner * levels + "1" + text[1] * levels).encode()
        payload = presented(data)
        given_as.add(payload.WhichOneof("content"))
        event = JobEvent(terminal=Job())
        event.terminal.spec.payload.CopyFrom(payload)
        assert JobEvent.FromString(event.SerializeToString()) == event
    assert given_as == {"json", "data"}


def test_a_value_that_would_be_huge_stays_data() -> None:
    assert to_value(json.dumps([1] * 99_000).encode()) is not None
    assert to_value(json.dumps([1] * 101_000).encode()) is None
    assert to_value(json.dumps("," * 300_000).encode()) is not None
    assert to_value(json.dumps("x" * (5 << 20)).encode()) is None
