"""Parsing what a prober sends."""

from __future__ import annotations

from http import HTTPStatus

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobmesh.server.health_http import BadRequestError, Response, parse_request, render


@pytest.mark.parametrize(
    ("head", "expected"),
    [
        (b"GET /livez HTTP/1.1\r\nHost: x\r\n\r\n", ("GET", "/livez")),
        (b"HEAD /readyz?verbose HTTP/1.0\r\n\r\n", ("HEAD", "/readyz")),
    ],
)
def test_requests_are_read(head: bytes, expected: tuple[str, str]) -> None:
    assert parse_request(head) == expected


@pytest.mark.parametrize(
    ("head", "status"),
    [
        (b"\r\n\r\n", HTTPStatus.BAD_REQUEST),
        (b"GET /\r\n\r\n", HTTPStatus.BAD_REQUEST),
        (b"GET / SPDY/3\r\n\r\n", HTTPStatus.BAD_REQUEST),
        (b"GET http://x/ HTTP/1.1\r\n\r\n", HTTPStatus.BAD_REQUEST),
        (b"GET /\xff HTTP/1.1\r\n\r\n", HTTPStatus.BAD_REQUEST),
        (b"PRI * HTTP/2.0\r\n\r\n", HTTPStatus.BAD_REQUEST),
        (b"POST /livez HTTP/1.1\r\n\r\n", HTTPStatus.METHOD_NOT_ALLOWED),
    ],
)
def test_others_are_refused(head: bytes, status: HTTPStatus) -> None:
    with pytest.raises(BadRequestError) as caught:
        parse_request(head)
    assert caught.value.status is status


@given(st.binary(max_size=200))
def test_any_bytes_are_read_or_refused(head: bytes) -> None:
    try:
        method, path = parse_request(head)
    except BadRequestError:
        return
    assert method in ("GET", "HEAD")
    assert path.startswith("/")


def test_a_response_states_its_length_and_head_leaves_the_body_out() -> None:
    response = Response(b"abc", HTTPStatus.OK, "text/plain")
    assert render(response).endswith(b"Connection: close\r\n\r\nabc")
    assert b"Content-Length: 3\r\n" in render(response, head_only=True)
    assert render(response, head_only=True).endswith(b"\r\n\r\n")
