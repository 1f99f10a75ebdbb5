"""The compose file as the tests read it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

DEPLOY = Path(__file__).parents[3] / "deploy"
FILE = DEPLOY / "compose.yaml"
ENTRYPOINT = "jobmesh"


@dataclass(frozen=True, slots=True)
class Container:
    """One of jobmesh's own services in the file."""

    name: str
    command: tuple[str, ...]
    environment: dict[str, str]
    settings: dict[str, Any]

    @property
    def service(self) -> str:
        """What it runs, e.g. `gateway`."""
        return self.command[0]


def document() -> dict[str, Any]:
    content: dict[str, Any] = yaml.safe_load(FILE.read_text())
    return content


def routes() -> list[dict[str, Any]]:
    """Those of the proxy, the first that matches goes."""
    config = yaml.safe_load((DEPLOY / "envoy.yaml").read_text())
    manager = config["static_resources"]["listeners"][0]["filter_chains"][0]["filters"][0]
    (host,) = manager["typed_config"]["route_config"]["virtual_hosts"]
    found: list[dict[str, Any]] = host["routes"]
    return found


def ours() -> list[Container]:
    """Those of jobmesh's image, in the order in which they may be started."""
    containers = [
        Container(name, tuple(settings["command"]), settings.get("environment", {}), settings)
        for name, settings in document()["services"].items()
        if settings["image"] == "jobmesh"
    ]
    order = ("migrate", "dispatcher", "scheduler", "gateway", "runner")
    return sorted(containers, key=lambda each: order.index(each.service))
