"""Properties of payloads: what is read is what was sent, and can be sent again."""

from __future__ import annotations

import json
from typing import Any

from google.protobuf.struct_pb2 import Value
from hypothesis import given
from hypothesis import strategies as st

from jobmesh.payload import canonical_json, normalise, present, to_value
from jobmesh.v1.job_pb2 import Payload

EXACT = 2**53 - 1
text = st.text(st.characters(codec="utf-8"), max_size=20)
scalars = (
    st.none()
    | st.booleans()
    | st.integers(-EXACT, EXACT)
    | st.floats(allow_nan=False, allow_infinity=False).filter(lambda x: abs(x) < 2**53 or x % 1)
    | text
)
values = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=5) | st.dictionaries(text, inner, max_size=5),
    max_leaves=30,
)
objects = st.dictionaries(text, values, max_size=5)
anything = st.recursive(
    scalars | st.integers() | st.floats(allow_nan=False, allow_infinity=False),
    lambda inner: st.lists(inner, max_size=5) | st.dictionaries(text, inner, max_size=5),
    max_leaves=30,
)


def without_fraction(content: Any) -> Any:
    """Whole floats as integers: `1.0` and `1` are one number in JSON."""
    if isinstance(content, float) and content.is_integer() and abs(content) <= EXACT:
        return int(content)
    if isinstance(content, list):
        return [without_fraction(item) for item in content]
    if isinstance(content, dict):
        return {key: without_fraction(item) for key, item in content.items()}
    return content


def same(one: Any, other: Any) -> bool:
    """Equal, types included: `True` is not 1, and 1 is not 1.0."""
    return repr(one) == repr(other)


def sort(content: Any) -> Any:
    return json.loads(json.dumps(content, sort_keys=True))


@given(objects)
def test_data_is_read_back_as_json_and_comes_in_again_unchanged(content: dict[str, Any]) -> None:
    sent = Payload(data=json.dumps(content).encode())
    stored = normalise(sent, "p")
    read = Payload(data=stored.data, content_type=stored.content_type)
    present(read)
    assert read.WhichOneof("content") == "json"
    again = normalise(read, "p")
    assert again.canonical() == stored.canonical()
    assert same(json.loads(again.data), sort(without_fraction(content)))


@given(anything)
def test_a_value_is_given_out_only_if_it_holds_the_content_exactly(content: Any) -> None:
    value = to_value(json.dumps(content).encode())
    if value is not None:
        assert same(
            sort(without_fraction(json.loads(canonical_json(value, "p")))),
            sort(without_fraction(content)),
        )


@given(values)
def test_results_may_be_any_value(content: Any) -> None:
    data = json.dumps(content).encode()
    stored = normalise(Payload(data=data), "result", arguments=False)
    payload = Payload(data=stored.data, content_type=stored.content_type)
    present(payload)
    assert payload.WhichOneof("content") == "json"
    assert normalise(payload, "result", arguments=False).canonical() == stored.canonical()


@given(st.binary(max_size=200))
def test_any_bytes_are_judged_without_a_crash(data: bytes) -> None:
    value = to_value(data)
    assert value is None or isinstance(value, Value)


@given(st.integers())
def test_integers_are_json_up_to_the_last_exact_one(number: int) -> None:
    value = to_value(json.dumps({"n": number}).encode())
    assert (value is not None) == (abs(number) <= EXACT)
    if value is not None:
        assert (
            canonical_json(value, "p") == json.dumps({"n": number}, separators=(",", ":")).encode()
        )
