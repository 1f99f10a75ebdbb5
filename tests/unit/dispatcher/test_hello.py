"""What a runner may say first."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from jobmesh.errors import InvalidField
from jobmesh.v1 import runner_service_pb2 as pb
from jobmesh_dispatcher.hello import MAX_TYPES, check_hello, read_hello
from tests.support import decisions as d
from tests.support.dispatchers import hello


def test_what_a_runner_of_ours_says_is_taken() -> None:
    said = hello()
    said.queues.append("mail")
    said.namespace = "default"
    said.held.add(job_id=str(d.uid()), attempt=1)
    check_hello(said)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("runner_id", ""),
        ("runner_id", "a\0b"),
        ("runner_id", "r" * 201),
        ("session_id", "no-uuid"),
        ("namespace", "a b"),
        ("types", []),
        ("types", ["a\0"]),
        ("types", [f"t{n}" for n in range(MAX_TYPES + 1)]),
        ("queues", [""]),
        ("slots", 0),
        ("slots", 10_001),
        ("prefetch", -1),
        ("held", [pb.Lease(job_id="x")]),
    ],
)
def test_what_cannot_be_is_refused_with_its_field(field: str, value: Any) -> None:
    said = hello()
    said.ClearField(field)  # type: ignore[arg-type]
    said.MergeFrom(pb.Hello(**{field: value}))
    with pytest.raises(InvalidField) as refused:
        check_hello(said)
    assert refused.value.field.startswith(f"hello.{field}")


def test_a_version_is_cut_and_not_refused() -> None:
    said = hello()
    said.version = "1\0" * 500
    check_hello(said)
    assert "\0" not in said.version
    assert len(said.version) <= 100


async def test_something_else_first_is_refused() -> None:
    async def requests() -> AsyncIterator[pb.WorkRequest]:
        yield pb.WorkRequest(ping=pb.Ping(sequence=1))

    with pytest.raises(InvalidField):
        await read_hello(requests())
