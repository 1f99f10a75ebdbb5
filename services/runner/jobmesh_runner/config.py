"""Settings of the runner."""

from __future__ import annotations

import socket
from dataclasses import dataclass

from jobmesh.server.config import setting

MOST_SLOTS = 10_000


def _names_an_app(apps: tuple[str, ...]) -> str | None:
    if not apps:
        return "must name an app, as module:app"
    wrong = [app for app in apps if not all(app.partition(":")[::2])]
    return f"must look like module:app, not {wrong[0]}" if wrong else None


def _is_the_one(namespace: str) -> str | None:
    return None if namespace in ("", "default") else "must be default: there is no other yet"


@dataclass(frozen=True, kw_only=True)
class RunnerConfig:
    """Settings of one runner process; times in seconds."""

    app: tuple[str, ...] = setting(
        check=_names_an_app, help="what it serves, as module:app; several are put together"
    )
    dispatchers: tuple[str, ...] = setting(
        ("127.0.0.1:7482",), help="addresses of dispatchers, or one name that resolves to all"
    )
    address: str = setting(
        "127.0.0.1:7480", help="of gateways, for the schedules that the app declares, if any"
    )
    runner_id: str = setting(
        "", help="a stable name, up to 200 characters; host and app by default"
    )
    namespace: str = setting(
        "", check=_is_the_one, help="reserved: there is one namespace, default"
    )
    queues: tuple[str, ...] = setting((), help="the queues that it serves; all of them if empty")
    slots: int = setting(16, minimum=1, maximum=MOST_SLOTS, help="handlers that run at once")
    prefetch: int = setting(
        1000,
        minimum=0,
        maximum=MOST_SLOTS,
        help="jobs taken ahead at most; as many as it runs in a quarter of a second",
    )
    drain_grace_seconds: float = setting(
        30.0, minimum=0, maximum=86400, help="how long running jobs may go on after SIGTERM"
    )
    cancel_grace_seconds: float = setting(
        30.0, minimum=0, maximum=86400, help="how long a handler may take to stop"
    )
    payload_limit_bytes: int = setting(
        1 << 20, minimum=1024, maximum=4 << 20, help="limit of a result and of a checkpoint"
    )
    host: str = setting("127.0.0.1", help="address to listen on")
    port: int = setting(7486, minimum=0, maximum=65535, help="gRPC port (health, reflection)")
    http_port: int = setting(7487, minimum=0, maximum=65535, help="port of probes and metrics")

    @property
    def name(self) -> str:
        """The runner's id: as set, or else host and app."""
        return (self.runner_id or f"{socket.gethostname()}:{','.join(self.app)}")[:200]
