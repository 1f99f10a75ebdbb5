"""Settings of the dispatcher."""

from __future__ import annotations

from dataclasses import dataclass

from jobmesh.server.config import setting


@dataclass(frozen=True, kw_only=True)
class DispatcherConfig:
    """Settings of one dispatcher process; times in seconds."""

    postgres_dsn: str = setting(
        secret=True, help="URL of PostgreSQL; several hosts are allowed, the one for writes is used"
    )
    nats_url: str = setting(
        "nats://127.0.0.1:4222", secret=True, help="URLs of NATS servers, separated by commas"
    )
    host: str = setting("127.0.0.1", help="address to listen on")
    port: int = setting(7482, minimum=0, maximum=65535, help="gRPC port")
    http_port: int = setting(7483, minimum=0, maximum=65535, help="port of probes and metrics")
    postgres_pool_size: int = setting(
        10, minimum=3, maximum=200, help="connections to PostgreSQL for claims and reports"
    )
    postgres_calls: int = setting(
        6, minimum=2, maximum=200, help="connections to PostgreSQL for calls about single jobs"
    )
    postgres_lookups: int = setting(
        6, minimum=2, maximum=200, help="connections to PostgreSQL for lists and repairs"
    )
    postgres_statement_cache: int = setting(
        100, minimum=0, help="prepared statements a connection; 0 behind a transaction pooler"
    )
    nats_replicas: int = setting(1, minimum=1, maximum=5, help="replicas of each stream")
    max_deliver: int = setting(
        5,
        minimum=1,
        maximum=1000,
        help="deliveries of a wake-up before it goes to the dead letters",
    )
    ack_wait_seconds: float = setting(
        10.0, minimum=0.5, maximum=60, help="how long a wake-up may wait for its claim"
    )
    session_lease_seconds: float = setting(
        10.0, minimum=0.5, maximum=600, help="silence of a runner after which its jobs are requeued"
    )
    session_grace_seconds: float = setting(
        2.0, minimum=0.1, maximum=60, help="how long a runner whose stream broke may take to return"
    )
    runner_stream_seconds: float = setting(
        300.0,
        minimum=0.1,
        maximum=86400,
        help="how long, on average, a runner stays before it is sent to the next dispatcher",
    )
