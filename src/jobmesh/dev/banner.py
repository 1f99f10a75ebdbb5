"""What `jobmesh dev` says once it serves."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from jobmesh.dev.options import DevOptions

DEFAULT_PORT = 7480


def banner(content: Mapping[str, Any], options: DevOptions, detached: bool) -> str:
    """Addresses, process ids, and how to go on; `content` is that of the ready file."""
    gateways = ", ".join(content["gateway"])
    pids = "  ".join(f"{name} {pid}" for name, pid in content["processes"].items())
    lines = [
        "",
        "jobmesh is ready",
        f"  gateway    {gateways}  (gRPC with reflection)",
        f"  metrics    http://{content['http']['gateway-1']}/metrics",
        f"  nats       {content['nats']}",
        f"  postgres   the DSN is in {options.directory / 'ready.json'}",
        f"  processes  {pids}",
        f"  logs       {options.directory / 'logs'}",
        f"  serving    {', '.join(options.apps)}",
        "",
        *_how_to_submit(content["gateway"][0], options),
        f"  stop       {_how_to_stop(options, detached)}",
        "",
    ]
    return "\n".join(lines)


def _how_to_submit(address: str, options: DevOptions) -> list[str]:
    flag = "" if address.endswith(f":{DEFAULT_PORT}") else f" --address {address}"
    if options.app:
        return [f"""  submit     jobmesh submit{flag} TYPE '{{"argument": "value"}}' --watch"""]
    return [  # types that both the examples and the built-in app have
        f"""  submit     jobmesh submit{flag} hello '{{"name": "Ada"}}' --watch""",
        f"""             jobmesh submit{flag} countdown '{{"seconds": 5}}' --watch""",
    ]


def _how_to_stop(options: DevOptions, detached: bool) -> str:
    if not detached:
        return "Ctrl-C (a second one does not wait for running jobs)"
    default = options.directory == Path(".jobmesh").resolve()
    return "jobmesh dev stop" + ("" if default else f" --data {options.directory}")
