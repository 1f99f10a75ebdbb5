"""Traces, only where somebody collects them.

Unless ``OTEL_EXPORTER_OTLP_ENDPOINT`` (or ``JOBMESH_TRACES=1``) is set, nothing of OpenTelemetry is
imported and a call costs nothing more. Call :func:`configure` once, before servers and channels are
made. The standard variables apply: ``OTEL_TRACES_SAMPLER``, ``OTEL_EXPORTER_OTLP_*``,
``OTEL_SERVICE_NAME``, ``OTEL_SDK_DISABLED``.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Protocol


class _Tracing(Protocol):
    """What is behind these functions when tracing is on: ``jobmesh.server.otel``."""

    def server_interceptors(self) -> Sequence[Any]: ...
    def client_interceptors(self) -> Sequence[Any]: ...
    def current_traceparent(self) -> str: ...
    def current_ids(self) -> tuple[str, str] | None: ...
    def span(
        self, name: str, traceparent: str, attributes: Mapping[str, str | int | float]
    ) -> contextlib.AbstractContextManager[object]: ...
    def shutdown(self) -> None: ...


_active: _Tracing | None = None


def wanted(env: Mapping[str, str] | None = None) -> bool:
    """Whether the environment asks for traces."""
    env = os.environ if env is None else env
    if env.get("OTEL_SDK_DISABLED", "").lower() == "true":
        return False
    named = env.get("OTEL_EXPORTER_OTLP_ENDPOINT") or env.get("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")
    return bool(named) or env.get("JOBMESH_TRACES", "").lower() in ("1", "true", "on")


def load() -> None:
    """Import what :func:`configure` will need: for a process that others are forked from."""
    if wanted():
        import jobmesh.server.otel  # noqa: F401


def configure(service: str) -> bool:
    """Begin to trace if the environment asks for it; whether it does."""
    global _active
    if _active is None and wanted():
        from jobmesh.server.otel import OpenTelemetry

        _active = OpenTelemetry(service)
    return _active is not None


def enabled() -> bool:
    """Whether spans are made."""
    return _active is not None


def shutdown() -> None:
    """Export what is left, for a few seconds at most; blocks, so call it after the loop."""
    global _active
    active, _active = _active, None
    if active is not None:
        active.shutdown()


def server_interceptors() -> Sequence[Any]:
    """What a server puts in front of its interceptors; empty when tracing is off."""
    return _active.server_interceptors() if _active is not None else ()


def client_interceptors() -> Sequence[Any]:
    """What a channel needs to pass traces on; empty when tracing is off."""
    return _active.client_interceptors() if _active is not None else ()


def current_traceparent() -> str:
    """The W3C ``traceparent`` of the active span, to be kept with a job; "" when there is none."""
    return _active.current_traceparent() if _active is not None else ""


def current_ids() -> tuple[str, str] | None:
    """Trace and span id of the active span, in hex, for logs."""
    return _active.current_ids() if _active is not None else None


@contextlib.contextmanager
def span_from(
    traceparent: str, name: str, attributes: Mapping[str, str | int | float] | None = None
) -> Iterator[None]:
    """A span that continues the trace of ``traceparent``, e.g. from a submission to its handler.

    An empty or malformed ``traceparent`` begins a new trace; when tracing is off nothing happens.
    """
    if _active is None:
        yield
        return
    with _active.span(name, traceparent, attributes or {}):
        yield
