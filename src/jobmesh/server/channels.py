"""Channels between services: those of :mod:`jobmesh.channels`, with traces if they are on."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import grpc
import grpc.aio

from jobmesh import channels
from jobmesh.channels import resolve, target_uri
from jobmesh.server import tracing

__all__ = ["open_channel", "resolve", "target_uri"]


def open_channel(
    targets: Sequence[str] | str,
    service: str | Sequence[str] = "",
    *,
    credentials: grpc.ChannelCredentials | None = None,
    interceptors: Sequence[Any] = (),
    health_check: bool = True,
    options: Sequence[tuple[str, Any]] = (),
) -> grpc.aio.Channel:
    """See :func:`jobmesh.channels.open_channel`."""
    return channels.open_channel(
        targets,
        service,
        credentials=credentials,
        interceptors=(*interceptors, *tracing.client_interceptors()),
        health_check=health_check,
        options=options,
    )
