"""A tiny HTTP server for ``/livez``, ``/readyz`` and ``/metrics``.

Probes must work when nothing else does, so it depends on nothing, holds no state and bounds
everything: the size of a request, the time for it, the number of connections. One request a
connection, GET and HEAD only; a body is not read.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from http import HTTPStatus

import msgspec

from jobmesh.channels import join_address
from jobmesh.server import metrics
from jobmesh.server.readiness import Readiness

log = logging.getLogger(__name__)

MAX_REQUEST_BYTES = 8 << 10


@dataclass(frozen=True)
class Response:
    """What a route answers."""

    body: bytes
    status: HTTPStatus = HTTPStatus.OK
    content_type: str = "application/json"


Route = Callable[[], Awaitable[Response]]


class BadRequestError(Exception):
    """The request cannot be answered; holds the status that says why."""

    def __init__(self, status: HTTPStatus) -> None:
        super().__init__(status.phrase)
        self.status = status


def parse_request(head: bytes) -> tuple[str, str]:
    """Method and path, without its query, of a request's head; or :class:`BadRequestError`."""
    line = head.split(b"\r\n", 1)[0]
    parts = line.split(b" ")
    if len(parts) != 3 or not line.isascii() or not parts[2].startswith(b"HTTP/1."):
        raise BadRequestError(HTTPStatus.BAD_REQUEST)
    method, target = parts[0].decode(), parts[1].decode()
    if not target.startswith("/"):
        raise BadRequestError(HTTPStatus.BAD_REQUEST)
    if method not in ("GET", "HEAD"):
        raise BadRequestError(HTTPStatus.METHOD_NOT_ALLOWED)
    return method, target.split("?", 1)[0]


def render(response: Response, *, head_only: bool = False) -> bytes:
    """The response as bytes on the wire."""
    head = (
        f"HTTP/1.1 {response.status.value} {response.status.phrase}\r\n"
        f"Content-Type: {response.content_type}\r\n"
        f"Content-Length: {len(response.body)}\r\n"
        "Cache-Control: no-store\r\n"
        "Connection: close\r\n\r\n"
    )
    return head.encode("ascii") + (b"" if head_only else response.body)


class HealthHttp:
    """Serves the probes, the metrics, and any further ``routes`` by exact path."""

    def __init__(
        self,
        host: str,
        port: int,
        readiness: Readiness,
        *,
        routes: dict[str, Route] | None = None,
        max_connections: int = 64,
        timeout_seconds: float = 5.0,
    ) -> None:
        self.host = host
        self.port = port
        self._readiness = readiness
        self._routes: dict[str, Route] = {
            "/livez": self._livez,
            "/readyz": self._readyz,
            "/metrics": self._metrics,
            **(routes or {}),
        }
        self._max_connections = max_connections
        self._timeout = timeout_seconds
        self._server: asyncio.Server | None = None
        self._connections: set[asyncio.Task[None]] = set()

    @property
    def address(self) -> str:
        """``host:port`` as it is listened on."""
        return join_address(self.host, self.port)

    async def start(self) -> None:
        """Listen; an OSError that names the address if that is impossible."""
        try:
            self._server = await asyncio.start_server(
                self._accept, self.host, self.port, limit=MAX_REQUEST_BYTES
            )
        except OSError as error:
            raise OSError(
                error.errno, f"cannot listen on {self.address}: {error.strerror}"
            ) from None
        self.port = self._server.sockets[0].getsockname()[1]
        log.info("HTTP on %s", self.address)

    async def stop(self) -> None:
        """Stop listening and end the connections."""
        server, self._server = self._server, None
        if server is None:
            return
        server.close()
        for connection in self._connections:
            connection.cancel()
        if self._connections:
            await asyncio.wait(set(self._connections))
        await server.wait_closed()
        await self._readiness.stop()

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self._server is None or len(self._connections) >= self._max_connections:
            writer.transport.abort()
            return
        connection = asyncio.create_task(self._serve(reader, writer), name="http-connection")
        self._connections.add(connection)
        connection.add_done_callback(self._connections.discard)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            async with asyncio.timeout(self._timeout):
                writer.write(await self._answer(reader))
                await writer.drain()
                writer.close()
                await writer.wait_closed()
        except (TimeoutError, OSError, asyncio.IncompleteReadError):
            pass  # a prober that is slow, gone, or sent half a request
        finally:
            writer.transport.abort()

    async def _answer(self, reader: asyncio.StreamReader) -> bytes:
        method = "GET"
        try:
            method, path = parse_request(await _read_head(reader))
            response = await self._route(path)
        except BadRequestError as error:
            response = _plain(error.status)
        except OSError:
            raise
        except Exception as error:
            log.error("an HTTP request failed", exc_info=error)
            response = _plain(HTTPStatus.INTERNAL_SERVER_ERROR)
        return render(response, head_only=method == "HEAD")

    async def _route(self, path: str) -> Response:
        route = self._routes.get(path)
        return await route() if route is not None else _plain(HTTPStatus.NOT_FOUND)

    async def _livez(self) -> Response:
        """That the loop turns is all there is to say: a restart heals nothing else."""
        return Response(b'{"status":"ok"}')

    async def _readyz(self) -> Response:
        report = await self._readiness.report()
        checks = {name: report.failed.get(name, "ok") for name in (*report.checks, *report.failed)}
        body = {"status": "ok" if report.ready else "not ready", "checks": checks}
        status = HTTPStatus.OK if report.ready else HTTPStatus.SERVICE_UNAVAILABLE
        return Response(msgspec.json.encode(body), status)

    async def _metrics(self) -> Response:
        return Response(metrics.exposition(), content_type=metrics.CONTENT_TYPE)


async def _read_head(reader: asyncio.StreamReader) -> bytes:
    try:
        return await reader.readuntil(b"\r\n\r\n")
    except asyncio.LimitOverrunError:
        raise BadRequestError(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE) from None


def _plain(status: HTTPStatus) -> Response:
    return Response(status.phrase.encode() + b"\n", status, "text/plain; charset=utf-8")
