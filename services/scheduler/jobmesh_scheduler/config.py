"""Settings of the scheduler."""

from __future__ import annotations

from dataclasses import dataclass

from jobmesh.server.config import setting


@dataclass(frozen=True, kw_only=True)
class SchedulerConfig:
    """Settings of one scheduler process; times in seconds."""

    postgres_dsn: str = setting(
        secret=True, help="URL of PostgreSQL; several hosts are allowed, the one for writes is used"
    )
    dispatchers: tuple[str, ...] = setting(
        ("127.0.0.1:7482",), help="addresses of dispatchers, or one name that resolves to all"
    )
    host: str = setting("127.0.0.1", help="address to listen on")
    port: int = setting(7484, minimum=0, maximum=65535, help="gRPC port (SchedulerService)")
    http_port: int = setting(7485, minimum=0, maximum=65535, help="port of probes and metrics")
    leader_lease_seconds: float = setting(
        2.0, minimum=0.2, maximum=60, help="silence of the leader after which another takes over"
    )
    session_lease_seconds: float = setting(
        10.0, minimum=0.5, maximum=600, help="silence of a runner after which its jobs are requeued"
    )
    database_timeout_seconds: float = setting(
        1.0, minimum=0.1, maximum=30, help="to connect, and for each statement"
    )
