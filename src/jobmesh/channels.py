"""Client channels with the settings that were measured to survive kills, freezes and rollouts."""

from __future__ import annotations

import asyncio
import ipaddress
import json
import logging
import socket
from collections.abc import Iterable, Sequence
from typing import Any

import grpc
import grpc.aio

log = logging.getLogger(__name__)

MAX_MESSAGE_BYTES = 16 << 20

MESSAGE_OPTIONS: tuple[tuple[str, int], ...] = (
    ("grpc.max_send_message_length", MAX_MESSAGE_BYTES),
    ("grpc.max_receive_message_length", MAX_MESSAGE_BYTES),
)
# A dead or frozen peer is noticed within 7 s. Only ping_timeout_ms does it: its default is 60 s,
# and keepalive_timeout_ms has no effect.
CHANNEL_OPTIONS: tuple[tuple[str, int], ...] = (
    *MESSAGE_OPTIONS,
    ("grpc.keepalive_time_ms", 4000),
    ("grpc.http2.ping_timeout_ms", 3000),
    ("grpc.http2.max_pings_without_data", 0),
    ("grpc.keepalive_permit_without_calls", 1),
    ("grpc.initial_reconnect_backoff_ms", 200),
    ("grpc.min_reconnect_backoff_ms", 200),
    ("grpc.max_reconnect_backoff_ms", 1000),
    ("grpc.dns_min_time_between_resolutions_ms", 1000),
)


def service_config(services: Iterable[str] = (), *, health_check: bool = True) -> dict[str, Any]:
    """The gRPC service config: round robin, client health checks, retries of UNAVAILABLE.

    ``services`` are the full names whose calls are retried, none meaning all; ``health_check``
    leaves out replicas that say they do not serve.
    """
    names = [{"service": service} for service in services] or [{}]
    config: dict[str, Any] = {
        "loadBalancingConfig": [{"round_robin": {}}],
        # No "timeout" here: it fires a second or two early. Every call brings its own.
        "methodConfig": [
            {
                "name": names,
                "retryPolicy": {
                    "maxAttempts": 4,
                    "initialBackoff": "0.05s",
                    "maxBackoff": "1s",
                    "backoffMultiplier": 2,
                    "retryableStatusCodes": ["UNAVAILABLE"],
                },
            }
        ],
        "retryThrottling": {"maxTokens": 100, "tokenRatio": 0.5},
    }
    if health_check:
        config["healthCheckConfig"] = {"serviceName": ""}
    return config


def open_channel(
    targets: Sequence[str] | str,
    service: str | Sequence[str] = "",
    *,
    credentials: grpc.ChannelCredentials | None = None,
    interceptors: Sequence[Any] = (),
    health_check: bool = True,
    options: Sequence[tuple[str, Any]] = (),
) -> grpc.aio.Channel:
    """A channel that balances over ``targets``; it connects on first use and never blocks.

    - ``targets``: several ``address:port``, or one ``name:port`` whose DNS records are the
      replicas. Several names: :func:`resolve` them first.
    - ``service``: full name(s) of the services called through it, for the retry policy; none
      means all.
    - ``credentials``: for TLS; none means plain text.
    - ``health_check``: use only replicas that say they serve (not behind a proxy).
    - ``options``: further channel arguments; they win.

    It raises ValueError for a malformed target.
    """
    services = [service] if isinstance(service, str) else list(service)
    config = service_config(filter(None, services), health_check=health_check)
    arguments = [
        *CHANNEL_OPTIONS,
        ("grpc.service_config", json.dumps(config)),
        *options,
    ]
    target = target_uri(targets)
    if credentials is None:
        return grpc.aio.insecure_channel(target, arguments, interceptors=interceptors or None)
    return grpc.aio.secure_channel(
        target, credentials, arguments, interceptors=interceptors or None
    )


def target_uri(targets: Sequence[str] | str) -> str:
    """The gRPC target for the addresses: ``ipv4:a:1,b:2``, ``ipv6:…`` or ``dns:///name:port``."""
    if isinstance(targets, str):
        targets = targets.split(",")
    pairs = [split_address(target.strip()) for target in targets if target.strip()]
    if not pairs:
        raise ValueError("no address is given; it looks like 127.0.0.1:7480")
    versions = {_ip_version(host) for host, _ in pairs}
    joined = ",".join(join_address(host, port) for host, port in pairs)
    if versions == {4}:
        return f"ipv4:{joined}"
    if versions == {6}:
        return f"ipv6:{joined}"
    if len(pairs) == 1:
        return f"dns:///{joined}"
    raise ValueError(f"several addresses must all be IPv4 or all IPv6: {joined}")


async def resolve(targets: Sequence[str] | str, timeout: float = 5.0) -> list[str]:
    """The targets with their names replaced by IP addresses, in order, without duplicates.

    One name alone is left to gRPC, which follows changes of its DNS records; of several the
    addresses stay as they are now. Those that are unknown now, as a replica may just be starting,
    are left out with a warning.

    It raises OSError if all are unknown, TimeoutError without an answer in ``timeout`` seconds.
    """
    if isinstance(targets, str):
        targets = targets.split(",")
    named = [target.strip() for target in targets if target.strip()]
    if len(named) < 2:
        return named
    found: dict[str, None] = {}
    unknown: list[str] = []
    async with asyncio.timeout(timeout):
        for host, port in map(split_address, named):
            try:
                found.update(dict.fromkeys(await _addresses(host, port)))
            except socket.gaierror as error:
                unknown.append(f"{host} ({error.strerror})")
    if not found:
        raise OSError(f"unknown: {', '.join(unknown)}")
    if unknown:
        log.warning("goes without what cannot be resolved: %s", ", ".join(unknown))
    return list(found)


async def _addresses(host: str, port: int) -> list[str]:
    loop = asyncio.get_running_loop()
    records = await loop.getaddrinfo(host, port, family=socket.AF_INET, type=socket.SOCK_STREAM)
    return [join_address(str(record[4][0]), port) for record in records]


def split_address(address: str) -> tuple[str, int]:
    """``host:port`` as a pair; IPv6 in brackets."""
    host, colon, port = address.rpartition(":")
    if host.startswith("[") and host.endswith("]"):
        host = host[1:-1]
    elif ":" in host:
        colon = ""  # an IPv6 address without brackets, or a URL
    if not (colon and host and port.isascii() and port.isdecimal() and int(port) <= 65535):
        raise ValueError(f"not an address: {address!r}; it looks like 127.0.0.1:7480")
    # "localhost" may resolve to ::1 first, where nothing listens.
    return ("127.0.0.1" if host == "localhost" else host), int(port)


def join_address(host: str, port: int) -> str:
    """The pair as ``host:port``; IPv6 in brackets."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _ip_version(host: str) -> int:
    try:
        return ipaddress.ip_address(host).version
    except ValueError:
        return 0
