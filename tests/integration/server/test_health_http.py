"""The HTTP probes over real sockets, friendly and not."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from jobmesh.server.health_http import MAX_REQUEST_BYTES, HealthHttp, Response
from jobmesh.server.readiness import Readiness
from tests.support.wait import until


@asynccontextmanager
async def serving(readiness: Readiness | None = None, **options: Any) -> AsyncIterator[HealthHttp]:
    server = HealthHttp("127.0.0.1", 0, readiness or Readiness(), **options)
    await server.start()
    try:
        yield server
    finally:
        await server.stop()
        await server.stop()


async def exchange(server: HealthHttp, request: bytes) -> tuple[int, dict[str, str], bytes]:
    async with asyncio.timeout(10):
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        try:
            writer.write(request)
            answer = await reader.read()
        finally:
            writer.close()
    head, _, body = answer.partition(b"\r\n\r\n")
    status, *lines = head.decode().split("\r\n")
    headers = dict(line.lower().split(": ", 1) for line in lines)
    return int(status.split()[1]), headers, body


async def get(server: HealthHttp, path: str) -> tuple[int, dict[str, str], bytes]:
    return await exchange(server, f"GET {path} HTTP/1.1\r\nHost: x\r\n\r\n".encode())


async def test_alive() -> None:
    async with serving() as server:
        status, headers, body = await get(server, "/livez")
    assert (status, json.loads(body)) == (200, {"status": "ok"})
    assert headers["content-length"] == str(len(body))
    assert headers["connection"] == "close"


async def test_ready_names_each_check() -> None:
    async def down() -> None:
        raise ConnectionError

    async def up() -> None:
        pass

    readiness = Readiness()
    readiness.add("nats", up)
    async with serving(readiness) as server:
        assert (await get(server, "/readyz"))[0] == 200
        readiness.add("postgres", down)
        status, _, body = await get(server, "/readyz?verbose")
    assert status == 503
    assert json.loads(body)["checks"] == {"nats": "ok", "postgres": "ConnectionError"}


async def test_metrics_are_prometheus_text() -> None:
    async with serving() as server:
        status, headers, body = await get(server, "/metrics")
    assert status == 200
    assert headers["content-type"].startswith("text/plain")
    assert b"process_cpu_seconds_total" in body


async def test_routes_can_be_added_and_may_fail(caplog: pytest.LogCaptureFixture) -> None:
    async def hello() -> Response:
        return Response(b"hi", content_type="text/plain")

    async def broken() -> Response:
        raise ValueError("hunter2")

    async with serving(routes={"/hello": hello, "/broken": broken}) as server:
        assert (await get(server, "/hello"))[2] == b"hi"
        status, _, body = await get(server, "/broken")
    assert status == 500
    assert b"hunter2" not in body
    assert "hunter2" in caplog.text


@pytest.mark.parametrize(
    ("request_bytes", "expected"),
    [
        (b"GET /nothing HTTP/1.1\r\n\r\n", 404),
        (b"DELETE /livez HTTP/1.1\r\n\r\n", 405),
        (b"\x16\x03\x01 hello tls\r\n\r\n", 400),
        (b"GET /livez HTTP/1.1\r\nx: " + b"y" * 3 * MAX_REQUEST_BYTES + b"\r\n\r\n", 431),
    ],
)
async def test_bad_requests_are_told_so(request_bytes: bytes, expected: int) -> None:
    async with serving() as server:
        assert (await exchange(server, request_bytes))[0] == expected
        assert (await get(server, "/livez"))[0] == 200


async def test_head_has_no_body() -> None:
    async with serving() as server:
        status, headers, body = await exchange(server, b"HEAD /livez HTTP/1.1\r\n\r\n")
    assert (status, body) == (200, b"")
    assert int(headers["content-length"]) > 0


async def test_half_a_request_is_dropped_in_time() -> None:
    async with serving(timeout_seconds=0.05) as server:
        assert await _raw(server, b"GET /livez HT") == b""


async def test_a_client_that_hangs_up_is_nothing_special() -> None:
    async with serving() as server:
        _, writer = await asyncio.open_connection("127.0.0.1", server.port)
        writer.write(b"GET /li")
        writer.close()
        assert (await get(server, "/livez"))[0] == 200


async def test_connections_are_capped_and_come_back() -> None:
    async with serving(max_connections=2) as server:
        idle = [await asyncio.open_connection("127.0.0.1", server.port) for _ in range(2)]
        await until(lambda: len(server._connections) == 2, 5, "two connections")
        assert await _raw(server, b"GET /livez HTTP/1.1\r\n\r\n") == b""
        for _, writer in idle:
            writer.close()
        await until(lambda: len(server._connections) == 0, 5, "no connection")
        assert (await get(server, "/livez"))[0] == 200


async def test_a_slow_check_does_not_hold_other_probes() -> None:
    release = asyncio.Event()

    async def slow() -> None:
        await release.wait()

    readiness = Readiness()
    readiness.add("postgres", slow)
    async with serving(readiness) as server:
        probing = asyncio.create_task(get(server, "/readyz"))
        assert (await get(server, "/livez"))[0] == 200
        release.set()
        assert (await probing)[0] == 200


async def test_the_stop_ends_open_connections() -> None:
    async with serving(timeout_seconds=60) as server:
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        await until(lambda: len(server._connections) == 1, 5, "one connection")
        await server.stop()
        with contextlib.suppress(ConnectionResetError):
            assert await reader.read() == b""
        writer.close()


async def test_a_taken_port_is_named() -> None:
    async with serving() as server:
        other = HealthHttp("127.0.0.1", server.port, Readiness())
        with pytest.raises(OSError, match=f"cannot listen on 127.0.0.1:{server.port}"):
            await other.start()
        await other.stop()


async def _raw(server: HealthHttp, request: bytes) -> bytes:
    reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
    try:
        writer.write(request)
        async with asyncio.timeout(5):
            return await reader.read()
    except ConnectionResetError:  # or refused without a word
        return b""
    finally:
        writer.close()
