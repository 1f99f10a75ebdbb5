"""Metrics of served calls, by method and code."""

from __future__ import annotations

import asyncio

from jobmesh.server import metrics

_handled = metrics.counter(
    "jobmesh_grpc_requests_total", "Calls answered, by method and status code.", ("method", "code")
)
_seconds = metrics.histogram(
    "jobmesh_grpc_request_seconds", "Time from a call's arrival to its end.", ("method",)
)
_in_flight = metrics.gauge("jobmesh_grpc_in_flight", "Calls being served.", ("method",))


class ActiveCalls:
    """The calls that one server is serving."""

    def __init__(self) -> None:
        self.count = 0
        self._idle: asyncio.Event | None = None

    async def wait_idle(self) -> None:
        """Return once there is none."""
        while self.count:
            self._idle = self._idle or asyncio.Event()
            await self._idle.wait()

    def begin(self) -> None:
        """A call has arrived."""
        self.count += 1

    def end(self) -> None:
        """It has ended."""
        self.count -= 1
        if not self.count and self._idle is not None:
            self._idle.set()
            self._idle = None


class MethodMetrics:
    """The metrics of one method, their label lookups done once."""

    __slots__ = ("_active", "_codes", "_in_flight", "_seconds", "method")

    def __init__(self, method: str, active: ActiveCalls) -> None:
        self.method = method
        self._active = active
        self._in_flight = _in_flight.labels(method)
        self._seconds = _seconds.labels(method)
        self._codes = {"OK": _handled.labels(method, "OK")}

    def begin(self) -> None:
        """A call has arrived."""
        self._active.begin()
        self._in_flight.inc()

    def end(self, code: str, seconds: float) -> None:
        """It was answered with this code."""
        self._active.end()
        self._in_flight.dec()
        self._seconds.observe(seconds)
        counted = self._codes.get(code)
        if counted is None:
            counted = self._codes[code] = _handled.labels(self.method, code)
        counted.inc()
