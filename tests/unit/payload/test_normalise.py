"""Payloads on their way in: mistakes are named with their field, all forms mean the same."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest
from google.protobuf.struct_pb2 import ListValue, NullValue, Struct, Value

from jobmesh.errors import InvalidField, PayloadTooLarge
from jobmesh.payload import MAX_NESTING, normalise
from jobmesh.v1.job_pb2 import Payload


def in_json(**fields: Value) -> Payload:
    return Payload(json=Value(struct_value=Struct(fields=fields)))


def number(value: float) -> Value:
    return Value(number_value=value)


def test_whole_numbers_become_integers_and_keys_are_sorted() -> None:
    payload = in_json(b=number(3.0), a=number(-0.5), c=Value(string_value="ü"))
    normal = normalise(payload, "job.payload")
    assert normal.data == '{"a":-0.5,"b":3,"c":"ü"}'.encode()
    assert normal.content_type == "application/json"
    assert normal.canonical() == normal.data


def test_nothing_is_an_empty_object() -> None:
    assert normalise(Payload(), "p").data == b"{}"
    assert normalise(Payload(data=b""), "p").data == b"{}"
    assert normalise(Payload(content_type="application/json"), "p").data == b"{}"
    assert normalise(in_json(), "p").data == b"{}"


@pytest.mark.parametrize("value", [2.0**60, 2.0**53, -(2.0**53), 1e300])
def test_a_whole_number_that_a_double_may_have_rounded_is_refused_with_its_path(
    value: float,
) -> None:
    inner = Value(list_value=ListValue(values=[number(1), number(value)]))
    with pytest.raises(InvalidField, match=r"`data`") as caught:
        normalise(in_json(rows=inner), "job.payload")
    assert caught.value.field == "job.payload.json.rows[1]"


def test_the_largest_exact_whole_number_is_taken() -> None:
    assert normalise(in_json(n=number(2.0**53 - 1)), "p").data == b'{"n":9007199254740991}'


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_numbers_that_json_lacks_are_refused(value: float) -> None:
    with pytest.raises(InvalidField) as caught:
        normalise(in_json(**{"odd key": number(value)}), "job.payload")
    assert caught.value.field == "job.payload.json['odd key']"


def test_a_value_that_was_left_out_is_refused() -> None:
    with pytest.raises(InvalidField, match="is not set") as caught:
        normalise(in_json(a=Value()), "p")
    assert caught.value.field == "p.json.a"


@pytest.mark.parametrize(
    "value",
    [
        number(1),
        Value(string_value="x"),
        Value(null_value=NullValue.NULL_VALUE),
        Value(list_value=ListValue()),
    ],
)
def test_arguments_must_be_an_object(value: Value) -> None:
    with pytest.raises(InvalidField, match="object of the handler's arguments") as caught:
        normalise(Payload(json=value), "job.payload")
    assert caught.value.field == "job.payload.json"
    assert normalise(Payload(json=value), "result", arguments=False).data


@pytest.mark.parametrize(
    "data",
    [
        b'{"a":',
        b'{"a":1} x',
        b"{'a':1}",
        b'{"a":NaN}',
        b'{"a":01}',
        b'{"a":1e400}',
        b'{"a":"\xff"}',
        b'{"a":"\\ud800"}',
        b'\xef\xbb\xbf{"a":1}',
        b'{"a":' + b"9" * 5000 + b"}",
    ],
)
def test_malformed_json_is_refused_and_the_field_named(data: bytes) -> None:
    with pytest.raises(InvalidField, match="is not valid JSON") as caught:
        normalise(Payload(data=data), "requests[3].job.payload")
    assert caught.value.field == "requests[3].job.payload.data"


def test_the_position_of_a_mistake_is_told() -> None:
    with pytest.raises(InvalidField, match="byte 7"):
        normalise(Payload(data=b'{"a":1,}'), "p")


@pytest.mark.parametrize("data", [b"[]", b"1", b'"x"', b"null", b"true"])
def test_data_must_be_an_object_where_it_holds_arguments(data: bytes) -> None:
    with pytest.raises(InvalidField, match="JSON object"):
        normalise(Payload(data=data), "p")
    assert normalise(Payload(data=data), "result", arguments=False).data == data


def nested(levels: int) -> bytes:
    return b'{"a":' + b"[" * (levels - 1) + b"]" * (levels - 1) + b"}"


def test_nesting_is_limited() -> None:
    assert normalise(Payload(data=nested(MAX_NESTING)), "p").data == nested(MAX_NESTING)
    for levels in (MAX_NESTING + 1, 5000, 200_000):
        with pytest.raises(InvalidField, match="nested") as caught:
            normalise(Payload(data=nested(levels)), "p")
        assert caught.value.field == "p.data"


def test_brackets_side_by_side_are_no_nesting() -> None:
    data = b'{"a":[' + b",".join([b"[]"] * 500) + b"]}"
    assert normalise(Payload(data=data), "p").data == data


def test_the_size_is_limited_in_either_form() -> None:
    data = json.dumps({"a": "x" * 2000}).encode()
    with pytest.raises(PayloadTooLarge) as caught:
        normalise(Payload(data=data), "job.payload", limit=2000)
    assert caught.value.violations[0][0] == "job.payload.data"
    with pytest.raises(PayloadTooLarge) as caught:
        normalise(in_json(a=Value(string_value="x" * 2000)), "job.payload", limit=2000)
    assert caught.value.violations[0][0] == "job.payload.json"
    assert normalise(Payload(data=data), "p", limit=len(data)).data == data


@pytest.mark.parametrize(
    "content_type",
    ["application/json", "Application/JSON", "application/json; charset=utf-8", ""],
)
def test_json_is_recognised_however_it_is_written(content_type: str) -> None:
    normal = normalise(Payload(data=b'{"a": 1}', content_type=content_type), "p")
    assert (normal.data, normal.content_type) == (b'{"a": 1}', "application/json")


def test_other_content_passes_untouched() -> None:
    payload = Payload(data=b"\x00\xff", content_type="application/x-protobuf; message=a.B")
    normal = normalise(payload, "p")
    assert (normal.data, normal.content_type) == (b"\x00\xff", payload.content_type)
    assert normal.canonical() == b"\x00\xff"


@pytest.mark.parametrize("content_type", ["text", "a/b/c", "x" * 201, "text/plain\n", "ä/b"])
def test_a_content_type_must_be_one(content_type: str) -> None:
    with pytest.raises(InvalidField) as caught:
        normalise(Payload(data=b"x", content_type=content_type), "job.payload")
    assert caught.value.field == "job.payload.content_type"


def test_json_has_no_other_content_type() -> None:
    payload = in_json()
    payload.content_type = "text/plain"
    with pytest.raises(InvalidField) as caught:
        normalise(payload, "p")
    assert caught.value.field == "p.content_type"


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (b'{"a": 1, "b": [1.5, null]}', b'{"b":[1.5,null],"a":1.0}'),
        (b'{"a": "\\u00fc"}', '{"a":"ü"}'.encode()),
        (b'{"a": 1e2}', b'{"a":100}'),
    ],
)
def test_the_same_content_has_one_canonical_form(one: bytes, other: bytes) -> None:
    forms = {normalise(Payload(data=data), "p").canonical() for data in (one, other)}
    assert len(forms) == 1


def test_canonical_forms_of_json_and_data_agree() -> None:
    content: dict[str, Any] = {"month": "2026-10", "rows": 1000, "x": [0.1, {"b": None, "a": True}]}
    payload = Payload()
    payload.json.struct_value.update(content)
    by_json = normalise(payload, "p").canonical()
    by_data = normalise(Payload(data=json.dumps(content, indent=2).encode()), "p").canonical()
    assert by_json == by_data
