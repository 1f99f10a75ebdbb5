"""The gRPC server of a service, and the order of its stop that no client notices."""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

import grpc
import grpc.aio

from jobmesh.channels import MESSAGE_OPTIONS, join_address
from jobmesh.server import health, tracing
from jobmesh.server.health import HealthServicer, add_health
from jobmesh.server.interceptor import DEFAULT_DEADLINE_SECONDS, CallInterceptor
from jobmesh.server.readiness import Readiness
from jobmesh.server.reflection import add_reflection

log = logging.getLogger(__name__)

# (the generated add_…Servicer_to_server, the servicer, the service's full name)
ServiceEntry = tuple[Callable[[Any, Any], None], Any, str]

SERVER_OPTIONS: tuple[tuple[str, int], ...] = (
    *MESSAGE_OPTIONS,
    # On, a second process on the same port would start silently and share its connections.
    ("grpc.so_reuseport", 0),
    # Clients ping every 4 s; without this the third ping ends the connection.
    ("grpc.http2.min_ping_interval_without_data_ms", 2000),
    ("grpc.keepalive_permit_without_calls", 1),
    ("grpc.http2.max_pings_without_data", 0),
    ("grpc.keepalive_time_ms", 4000),
    ("grpc.http2.ping_timeout_ms", 3000),
)


_CLEANUP_SECONDS = 2.0


class PortTaken(OSError):
    """The address cannot be listened on."""


class GrpcServer:
    """Serves services with health, reflection, error mapping, metrics and, if on, traces.

    - ``services``: ``(add_…Servicer_to_server, servicer, full name)`` of each.
    - ``port``: 0 takes a free one; :attr:`port` tells which after the start.
    - ``interceptors``: run inside the server's own, which map errors and count calls.
    - ``readiness``: is made not ready when the drain begins.
    - ``on_drain``: ends the streams that the service itself keeps open, after clients were told to
      go elsewhere; bounded by ``grace_seconds``.
    - ``drain_seconds``: how long clients get to notice NOT_SERVING before that.
    - ``grace_seconds``: how long calls in flight get after that.
    - ``default_deadline_seconds``, ``deadlines``: see :class:`CallInterceptor`.
    - ``serving``: whether health says SERVING from the start.
    """

    def __init__(
        self,
        host: str,
        port: int,
        services: Sequence[ServiceEntry],
        *,
        credentials: grpc.ServerCredentials | None = None,
        interceptors: Sequence[grpc.aio.ServerInterceptor[Any, Any]] = (),
        readiness: Readiness | None = None,
        on_drain: Callable[[], Awaitable[object]] | None = None,
        drain_seconds: float = 0.5,
        grace_seconds: float = 5.0,
        default_deadline_seconds: float = DEFAULT_DEADLINE_SECONDS,
        deadlines: Mapping[str, float | None] | None = None,
        serving: bool = True,
        options: Sequence[tuple[str, Any]] = (),
    ) -> None:
        self.host = host
        self.port = port
        self._services = services
        self._credentials = credentials
        self._calls = CallInterceptor(default_deadline_seconds, deadlines)
        self._interceptors = (*tracing.server_interceptors(), self._calls, *interceptors)
        self._readiness = readiness
        self._on_drain = on_drain
        self._drain_seconds = drain_seconds
        self._grace_seconds = grace_seconds
        self._serving = serving
        self._options = (*SERVER_OPTIONS, *options)
        self._server: grpc.aio.Server | None = None
        self._health: HealthServicer | None = None
        self._draining: asyncio.Task[None] | None = None

    @property
    def address(self) -> str:
        """``host:port`` as it is listened on."""
        return join_address(self.host, self.port)

    async def start(self) -> None:
        """Listen and serve.

        It raises :class:`PortTaken` if the address is in use or not of this machine.
        """
        names = [name for _, _, name in self._services]
        server = grpc.aio.server(interceptors=self._interceptors, options=self._options)
        for add, servicer, _ in self._services:
            add(servicer, server)
        self._health = HealthServicer(names)
        add_health(self._health, server)
        add_reflection(server, [*names, health.FULL_NAME])
        self.port = self._bind(server)
        self._server = server
        self._health.set_serving(self._serving)
        await server.start()
        log.info("gRPC on %s: %s", self.address, ", ".join(names) or "health only")

    def set_serving(self, serving: bool) -> None:
        """Say by health whether clients should use this replica; ignored once it drains."""
        self._serving = serving
        if self._health is not None and self._draining is None:
            self._health.set_serving(serving)

    async def begin_drain(self) -> None:
        """Send clients elsewhere, then end own streams; new calls are still served meanwhile."""
        if self._server is None:
            return
        if self._draining is None:
            self._draining = asyncio.create_task(self._drain(), name="grpc-drain")
        # Shielded: a second caller that gives up must not stop the drain of the first.
        await asyncio.shield(self._draining)

    async def stop(self) -> None:
        """Drain, finish the calls in flight, stop listening."""
        if self._server is None:
            return
        try:
            await self.begin_drain()
        finally:
            server, self._server = self._server, None
            if server is not None:
                await self._end_drain()
                await server.stop(self._grace_seconds)
                await self._until_idle()

    async def _end_drain(self) -> None:
        """Await the drain; it still runs here only if the stop itself was cancelled."""
        if self._draining is not None and not self._draining.done():
            self._draining.cancel()
            await asyncio.wait({self._draining})

    async def _until_idle(self) -> None:
        """gRPC returns before the handlers it cancelled have cleaned up, with what stops next."""
        try:
            async with asyncio.timeout(_CLEANUP_SECONDS):
                await self._calls.wait_idle()
        except TimeoutError:
            log.warning("handlers still run %g s after they were cancelled", _CLEANUP_SECONDS)

    async def _drain(self) -> None:
        assert self._health is not None
        if self._readiness is not None:
            self._readiness.set_draining()
        self._health.set_serving(False)
        await asyncio.sleep(self._drain_seconds)
        if self._on_drain is not None:
            try:
                async with asyncio.timeout(self._grace_seconds):
                    await self._on_drain()
            except Exception as error:
                log.error("ending own streams failed", exc_info=error)
        self._health.end_watches()

    def _bind(self, server: grpc.aio.Server) -> int:
        try:
            if self._credentials is None:
                port = server.add_insecure_port(self.address)
            else:
                port = server.add_secure_port(self.address, self._credentials)
        except RuntimeError:
            port = 0
        if port == 0:
            raise PortTaken(
                f"cannot listen on {self.address}: {_bind_problem(self.host, self.port)}"
            )
        return port


def _bind_problem(host: str, port: int) -> str:
    """Ask the system itself why: gRPC does not say."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family) as probe:
        try:
            probe.bind((host, port))
        except OSError as error:
            return error.strerror or str(error)
    return "it is taken, or not an address of this machine"
