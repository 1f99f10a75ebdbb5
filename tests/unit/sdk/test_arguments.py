from __future__ import annotations

import enum
from dataclasses import dataclass
from datetime import UTC, date, datetime
from typing import Annotated, Any, Literal
from uuid import UUID

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobmesh import BadSignature, InvalidArguments, JobContext, SyncJobContext
from jobmesh.arguments import Arguments
from jobmesh.codec import NotSerializable


class Colour(enum.Enum):
    RED = "red"
    BLUE = "blue"


@dataclass
class Window:
    start: datetime
    days: int = 1


class Point(msgspec.Struct):
    x: int
    y: int


class Validating:
    """A foreign type with pydantic's interface."""

    def __init__(self, size: int) -> None:
        self.size = size

    @classmethod
    def model_validate(cls, value: Any) -> Validating:
        if not isinstance(value, dict) or value.get("size", 0) < 1:
            raise ValueError("size must be at least 1")
        return cls(value["size"])

    def model_dump(self, mode: str) -> dict[str, int]:
        return {"size": self.size}


async def report(
    job: JobContext,
    month: str,
    rows: int = 1000,
    window: Window | None = None,
    points: list[Point] = [],  # noqa: B006
    colour: Colour = Colour.RED,
    token: UUID | None = None,
    day: date | None = None,
    level: Annotated[int, msgspec.Meta(ge=1, le=9)] = 5,
    kind: Literal["short", "long"] = "short",
) -> None: ...


REPORT = Arguments(report)


def test_each_annotation_is_honoured() -> None:
    given = REPORT.decode(
        b'{"month": "2026-10", "window": {"start": "2026-10-01T00:00:00Z"}, "points": [{"x": 1, '
        b'"y": 2}], "colour": "blue", "token": "00000000-0000-7000-8000-000000000000", '
        b'"day": "2026-10-01", "kind": "long"}'
    )
    assert given == {
        "month": "2026-10",
        "window": Window(datetime(2026, 10, 1, tzinfo=UTC)),
        "points": [Point(1, 2)],
        "colour": Colour.BLUE,
        "token": UUID("00000000-0000-7000-8000-000000000000"),
        "day": date(2026, 10, 1),
        "kind": "long",
    }


def test_what_is_left_out_is_the_functions_default() -> None:
    assert REPORT.decode(b'{"month": "2026-10"}') == {"month": "2026-10"}


@pytest.mark.parametrize(
    ("payload", "field", "why"),
    [
        (b"{}", "month", "is required"),
        (b'{"month": 3}', "month", "Expected str, got int"),
        (b'{"month": "m", "rows": "1"}', "rows", "Expected int, got str"),
        (b'{"month": "m", "rows": 1.5}', "rows", "Expected int, got float"),
        (b'{"month": "m", "row": 1}', "row", "there is no such argument"),
        (b'{"month": "m", "job": {}}', "job", "there is no such argument"),
        (b'{"month": "m", "window": {"days": 2}}', "window.start", "is required"),
        (b'{"month": "m", "points": [{"x": 1, "y": 1}, {"x": 1}]}', "points[1].y", "is required"),
        (b'{"month": "m", "points": [{"x": 1, "y": null}]}', "points[0].y", "Expected int"),
        (b'{"month": "m", "colour": "green"}', "colour", "Invalid enum value 'green'"),
        (b'{"month": "m", "token": "x"}', "token", "Invalid UUID"),
        (b'{"month": "m", "level": 10}', "level", "Expected int <= 9"),
        (b'{"month": "m", "kind": "wide"}', "kind", "Invalid enum value"),
        (b"[]", "", "Expected object, got array"),
        (b"null", "", "Expected object, got null"),
        (b'{"month": ', "", "not JSON"),
        (b"", "", "not JSON"),
        (b'{"month": "\xff"}', "", "not JSON"),
    ],
)
def test_a_bad_payload_names_the_field(payload: bytes, field: str, why: str) -> None:
    with pytest.raises(InvalidArguments) as refused:
        REPORT.decode(payload)
    assert (refused.value.field, why in refused.value.why) == (field, True), refused.value


@given(st.integers())
def test_a_whole_number_stays_one_however_large(number: int) -> None:
    def handler(n: int) -> None: ...

    arguments = Arguments(handler)
    found = arguments.decode(arguments.encode({"n": number}))["n"]
    assert (found, type(found)) == (number, int)


def test_nesting_without_end_is_a_bad_payload() -> None:
    def handler(n: Any) -> None: ...

    with pytest.raises(InvalidArguments, match="nested too deeply"):
        Arguments(handler).decode(b'{"n": ' + b"[" * 100_000)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"])),
    lambda inner: st.lists(inner) | st.dictionaries(st.text("abc"), inner),
    max_leaves=10,
)  # fmt: skip


@given(st.dictionaries(st.text("abcdefgh", min_size=1), json_values))
def test_what_is_not_annotated_arrives_as_it_was_sent(sent: dict[str, Any]) -> None:
    def handler(**others): ...  # type: ignore[no-untyped-def]

    arguments = Arguments(handler)
    assert arguments.decode(arguments.encode(sent)) == sent


def test_further_arguments_are_checked_by_their_annotation() -> None:
    def handler(n: int, **sizes: int) -> None: ...

    arguments = Arguments(handler)
    assert arguments.decode(b'{"n": 1, "a": 2}') == {"n": 1, "a": 2}
    with pytest.raises(InvalidArguments, match=r"^a: Expected int"):
        arguments.decode(b'{"n": 1, "a": "2"}')
    with pytest.raises(InvalidArguments, match=r"^n: is required"):
        arguments.decode(b'{"a": 2}')


class Complaint(ValueError):
    """As pydantic raises it."""

    def errors(self) -> list[dict[str, Any]]:
        return [
            {"loc": ("sides", 2, "length"), "msg": "Field required", "input": "secret"},
            {"loc": (), "msg": "Too many", "input": "secret"},
        ]


class Complaining:
    @classmethod
    def model_validate(cls, value: Any) -> Complaining:
        raise Complaint("a text of many lines with secret")


def test_a_model_that_lists_its_complaints_is_quoted_without_values() -> None:
    def handler(models: list[Complaining]) -> None: ...

    with pytest.raises(InvalidArguments) as refused:
        Arguments(handler).decode(b'{"models": [{}]}')
    assert str(refused.value) == "models[0].sides[2].length: Field required (and 1 more)"
    assert refused.value.field == "models[0].sides[2].length"


def test_a_model_that_validates_itself_is_asked_to() -> None:
    def handler(model: Validating, more: list[Validating] = []) -> None: ...  # noqa: B006

    arguments = Arguments(handler)
    assert arguments.decode(arguments.encode({"model": Validating(3)}))["model"].size == 3
    with pytest.raises(InvalidArguments, match=r"^more\[1\]: size must be at least 1"):
        arguments.decode(b'{"model": {"size": 1}, "more": [{"size": 1}, {"size": 0}]}')


@pytest.mark.parametrize("bad", [{}, {"month": 1}, {"month": "m", "extra": 1}])
def test_a_submitter_hears_of_it_before_sending(bad: dict[str, Any]) -> None:
    with pytest.raises(InvalidArguments):
        REPORT.encode(bad)


def test_an_argument_without_a_json_form_is_refused() -> None:
    with pytest.raises(NotSerializable, match="arguments"):
        REPORT.encode({"month": object()})


def test_the_context_is_found_by_its_annotation_or_as_a_first_job() -> None:
    def late(n: int, context: SyncJobContext) -> None: ...
    def bare(job, n: int) -> None: ...  # type: ignore[no-untyped-def]
    def second(n: int, job) -> None: ...  # type: ignore[no-untyped-def]
    def own(job: str) -> None: ...
    def without() -> None: ...

    found = [Arguments(f).context_name for f in (late, bare, second, own, without)]
    assert found == ["context", "job", None, None, None]


def _two(a: JobContext, b: JobContext) -> None: ...
def _positional(a: int, /) -> None: ...
def _star(*a: int) -> None: ...
def _unknown(a: Nowhere) -> None: ...  # type: ignore[name-defined] # noqa: F821
async def _wrong_context(job: SyncJobContext) -> None: ...


@pytest.mark.parametrize("function", [_two, _positional, _star, _unknown, _wrong_context])
def test_a_function_that_cannot_be_a_handler_is_named(function: Any) -> None:
    with pytest.raises(BadSignature, match=function.__name__):
        Arguments(function)
