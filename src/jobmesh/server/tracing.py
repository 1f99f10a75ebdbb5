"""Traces, only where somebody collects them.

Unless ``OTEL_EXPORTER_OTLP_ENDPOINT`` (or ``JOBMESH_TRACES=1``) is set, nothing of OpenTelemetry is
imported and a call costs nothing more.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import grpc.aio


def server_interceptors() -> Sequence[grpc.aio.ServerInterceptor[Any, Any]]:
    """What a server puts in front of its interceptors; empty when tracing is off."""
    return ()
