"""Settings of the gateway."""

from __future__ import annotations

from dataclasses import dataclass

from jobmesh.payload import DEFAULT_LIMIT_BYTES, MAX_LIMIT_BYTES
from jobmesh.server.config import setting


@dataclass(frozen=True, kw_only=True)
class GatewayConfig:
    """Settings of one gateway process."""

    dispatchers: tuple[str, ...] = setting(
        ("127.0.0.1:7482",), help="addresses of dispatchers, or one name that resolves to all"
    )
    schedulers: tuple[str, ...] = setting(
        ("127.0.0.1:7484",), help="addresses of schedulers, or one name that resolves to all"
    )
    nats_url: str = setting(
        "nats://127.0.0.1:4222", secret=True, help="URL of NATS; several with commas"
    )
    host: str = setting("127.0.0.1", help="address to listen on")
    port: int = setting(7480, minimum=0, maximum=65535, help="gRPC port of the public API")
    http_port: int = setting(7481, minimum=0, maximum=65535, help="port of probes and metrics")
    payload_limit_bytes: int = setting(
        DEFAULT_LIMIT_BYTES, minimum=1, maximum=MAX_LIMIT_BYTES, help="largest payload of a job"
    )
    max_watches: int = setting(
        10_000, minimum=1, maximum=1_000_000, help="streams and waits open at once"
    )
