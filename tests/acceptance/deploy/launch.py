"""The commands that `deploy/` holds, run here as processes: only addresses are put right."""

from __future__ import annotations

import os
import sys
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import Any

import yaml

from jobmesh.dev.ports import PortPool
from tests.acceptance.deploy import compose, units
from tests.support.process import ServiceProcess

HOST = "127.0.0.1"
ROOT = Path(__file__).parents[3]
# Where the examples' handlers are found, as the image has it.
PATH = os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH"))))
PROGRAM = str(Path(sys.executable).with_name("jobmesh"))
ENVOY = str(Path(sys.executable).with_name("envoy"))


@dataclass(slots=True)
class Launch:
    """One process to be: what it runs, and the settings it was given."""

    name: str
    arguments: tuple[str, ...]
    environment: dict[str, str]
    port: int = 0
    http_port: int = 0
    path: str = ""
    process: ServiceProcess | None = field(default=None, repr=False)

    @property
    def service(self) -> str:
        return self.arguments[0]

    @property
    def address(self) -> str:
        return f"{HOST}:{self.port}"

    @property
    def running(self) -> ServiceProcess:
        assert self.process is not None, f"{self.name} was not started"
        return self.process


def of_compose() -> list[Launch]:
    return [
        Launch(each.name, each.command, dict(each.environment), path=PATH)
        for each in compose.ours()
    ]


def of_units(credentials: Path) -> list[Launch]:
    shared = units.environment_file()
    return [
        Launch(unit.file.stem, tuple(unit.command[1:]), shared | unit.environment(credentials))
        for unit in units.services()
    ]


@asynccontextmanager
async def running(
    launches: list[Launch], dsn: str, nats_url: str, ports: PortPool, directory: Path
) -> AsyncIterator[list[Launch]]:
    """Migrate, then start every service and wait until it is ready."""
    (directory / "postgres_dsn").write_text(dsn)
    for launch in launches:
        launch.port, launch.http_port = ports.take(), ports.take()
    async with AsyncExitStack() as stack:
        for launch in launches:
            settings = launch.environment | _put_right(launch, launches, dsn, nats_url)
            launch.process = ServiceProcess(
                launch.name,
                settings | ({"PYTHONPATH": launch.path} if launch.path else {}),
                directory / f"{launch.name}.log",
                (PROGRAM, *launch.arguments),
            )
            await stack.enter_async_context(launch.process)
            await _up(launch)
        yield launches


async def _up(launch: Launch) -> None:
    if launch.service != "migrate":
        await launch.running.ready()
        return
    child = launch.running.child
    assert child is not None
    assert await child.wait() == 0, launch.running.log.read_text()


def _put_right(launch: Launch, launches: list[Launch], dsn: str, nats_url: str) -> dict[str, str]:
    def addresses(service: str) -> str:
        return ",".join(each.address for each in launches if each.service == service)

    here = {
        "JOBMESH_HOST": HOST,
        "JOBMESH_POSTGRES_DSN": dsn,
        "JOBMESH_NATS_URL": nats_url,
        "JOBMESH_DISPATCHERS": addresses("dispatcher"),
        "JOBMESH_SCHEDULERS": addresses("scheduler"),
        "JOBMESH_ADDRESS": addresses("gateway"),
    }
    # Nothing that the file does not set: that it sets all that is needed is what is tested.
    known = {name: value for name, value in here.items() if name in launch.environment}
    return known | {
        "JOBMESH_PORT": str(launch.port),
        "JOBMESH_HTTP_PORT": str(launch.http_port),
    }


def envoy(launches: list[Launch], port: int, admin_port: int, directory: Path) -> ServiceProcess:
    """The proxy of `envoy.yaml`, before the gateways among these."""
    config: dict[str, Any] = yaml.safe_load((compose.DEPLOY / "envoy.yaml").read_text())
    listener = config["static_resources"]["listeners"][0]
    listener["address"]["socket_address"] |= {"address": HOST, "port_value": port}
    config["admin"]["address"]["socket_address"] |= {"port_value": admin_port}
    gateways = config["static_resources"]["clusters"][0]["load_assignment"]["endpoints"][0]
    gateways["lb_endpoints"] = [
        {"endpoint": {"address": {"socket_address": {"address": HOST, "port_value": each.port}}}}
        for each in launches
        if each.service == "gateway"
    ]
    file = directory / "envoy.yaml"
    file.write_text(yaml.safe_dump(config))
    options = {"--config-path": str(file), "--log-level": "warning", "--concurrency": "1"}
    command = (ENVOY, *chain.from_iterable(options.items()), "--disable-hot-restart")
    return ServiceProcess("envoy", {}, directory / "envoy.log", command)
