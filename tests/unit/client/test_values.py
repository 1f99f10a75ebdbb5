from __future__ import annotations

import json
from typing import Any

from google.protobuf import json_format, struct_pb2
from hypothesis import given
from hypothesis import strategies as st

from jobmesh.client.values import decode_payload
from jobmesh.v1 import job_pb2

JSON_VALUES: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner),
    max_leaves=8,
)


@given(JSON_VALUES)
def test_a_value_reads_back_the_same_from_either_side(value: Any) -> None:
    as_json = job_pb2.Payload(
        json=json_format.Parse(json.dumps(value), struct_pb2.Value())
        if value is not None
        else struct_pb2.Value(null_value=struct_pb2.NULL_VALUE)
    )
    as_data = job_pb2.Payload(data=json.dumps(value).encode(), content_type="application/json")
    assert decode_payload(as_json) == value
    assert decode_payload(as_data) == value


def test_whole_numbers_are_ints_and_others_floats() -> None:
    whole, half = struct_pb2.Value(number_value=3.0), struct_pb2.Value(number_value=0.5)
    assert repr(decode_payload(job_pb2.Payload(json=whole))) == "3"
    assert repr(decode_payload(job_pb2.Payload(json=half))) == "0.5"


def test_an_object_is_in_order_every_time() -> None:
    fields = {name: struct_pb2.Value(bool_value=True) for name in "hgfedcba"}
    value = struct_pb2.Value(struct_value=struct_pb2.Struct(fields=fields))
    assert list(decode_payload(job_pb2.Payload(json=value))) == list("abcdefgh")


def test_a_number_beyond_a_double_keeps_all_its_digits() -> None:
    assert decode_payload(job_pb2.Payload(data=b"1152921504606846977")) == 2**60 + 1


def test_nothing_is_an_empty_object_and_other_data_stays_data() -> None:
    assert decode_payload(job_pb2.Payload()) == {}
    png = job_pb2.Payload(data=b"\x89PNG", content_type="image/png")
    assert decode_payload(png) == b"\x89PNG"
