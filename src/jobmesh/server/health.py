"""``grpc.health.v1`` for a service and its process.

The servicer of grpcio-health-checking keeps a ``Watch`` open until the server kills it, so that
each stop takes its whole grace; this one ends its watches when told to.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable
from typing import Any

import grpc
from grpc_health.v1 import health_pb2, health_pb2_grpc

import jobmesh

FULL_NAME = "grpc.health.v1.Health"

_Response = health_pb2.HealthCheckResponse


class HealthServicer(health_pb2_grpc.HealthServicer):
    """One state for all services of the process, under their full names and ``""``."""

    def __init__(self, services: Iterable[str]) -> None:
        self._services = frozenset(services) | {""}
        self._status = _Response.NOT_SERVING
        self._changed = asyncio.Event()
        self._ended = False
        self._version = (("jobmesh-version", jobmesh.__version__),)

    def set_serving(self, serving: bool) -> None:
        """Tell everybody who watches; within milliseconds clients leave or return."""
        self._status = _Response.SERVING if serving else _Response.NOT_SERVING
        self._wake()

    def end_watches(self) -> None:
        """End all watches, now and later, so that the server can stop."""
        self._ended = True
        self._wake()

    def _wake(self) -> None:
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()

    def _status_of(self, service: str) -> Any:
        return self._status if service in self._services else None

    async def Check(
        self, request: health_pb2.HealthCheckRequest, context: grpc.aio.ServicerContext[Any, Any]
    ) -> health_pb2.HealthCheckResponse:
        """The present state; NOT_FOUND for an unknown service."""
        status = self._status_of(request.service)
        if status is None:
            await context.abort(grpc.StatusCode.NOT_FOUND, "unknown service")
        # For people who look on during a rollout: `jobmesh info` shows it.
        await context.send_initial_metadata(self._version)
        return _Response(status=status)

    async def Watch(
        self, request: health_pb2.HealthCheckRequest, context: grpc.aio.ServicerContext[Any, Any]
    ) -> AsyncIterator[health_pb2.HealthCheckResponse]:
        """The present state, then each change; SERVICE_UNKNOWN for an unknown service."""
        sent = None
        while not self._ended:
            changed = self._changed
            status = self._status_of(request.service)
            status = _Response.SERVICE_UNKNOWN if status is None else status
            if status != sent:
                sent = status
                yield _Response(status=status)
            else:
                await changed.wait()
        # Not OK and not UNIMPLEMENTED, which clients take for "healthy".
        await context.abort(grpc.StatusCode.UNAVAILABLE, "stopping")


def add_health(servicer: HealthServicer, server: grpc.aio.Server) -> None:
    """Serve it."""
    add: Any = health_pb2_grpc.add_HealthServicer_to_server  # it has no types
    add(servicer, server)
