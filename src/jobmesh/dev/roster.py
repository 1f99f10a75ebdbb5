"""Which services a mesh is made of, and the settings that each process gets."""

from __future__ import annotations

import os
import signal
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass

from jobmesh.dev.child import Child, Program
from jobmesh.dev.directory import DataDirectory
from jobmesh.dev.errors import DevError
from jobmesh.dev.forking import COMMAND
from jobmesh.dev.options import DevOptions
from jobmesh.dev.ports import PortPool, is_free
from jobmesh.dev.probe import answers_ok

HOST = "127.0.0.1"
# Runners first, so that they can report and say goodbye; what they report to, last.
STOP_ORDER = ("runner", "gateway", "scheduler", "dispatcher")
STOP_GRACE = {"runner": 40.0, "gateway": 15.0, "scheduler": 15.0, "dispatcher": 20.0}


Launch = Callable[[Program], Awaitable[Child]]


class Service:
    """One process of a service, kept at the same addresses over its lives."""

    def __init__(
        self, service: str, number: int, port: int, http_port: int, launch: Launch = Child.start
    ) -> None:
        self.service = service
        self.name = f"{service}-{number}"
        self.port = port
        self.http_port = http_port
        self.program: Program | None = None
        self.child: Child | None = None
        self._launch = launch

    @property
    def address(self) -> str:
        """Where it serves gRPC."""
        return f"{HOST}:{self.port}"

    @property
    def http(self) -> str:
        """Where its probes and metrics are."""
        return f"{HOST}:{self.http_port}"

    async def start(self) -> None:
        """Start the process."""
        assert self.program is not None
        self.child = await self._launch(self.program)

    async def serves(self) -> bool:
        """Whether it says that it is ready."""
        return await answers_ok(self.http, "/readyz")

    async def stop(self) -> None:
        """SIGTERM, then SIGKILL after the service's grace."""
        if self.child is not None:
            await self.child.stop((signal.SIGTERM, STOP_GRACE[self.service]))

    def kill(self) -> None:
        """SIGKILL."""
        if self.child is not None:
            self.child.kill()


@dataclass(frozen=True, slots=True)
class Backends:
    """Where the embedded servers are; `flights` is a database for the example of that name."""

    postgres: str
    nats: str
    flights: str


def enrol(options: DevOptions, ports: PortPool, launch: Launch) -> list[Service]:
    """The processes with their addresses.

    :param launch: starts a program.
    :raises DevError: if the gateway's port is taken.
    """
    counts = {
        "dispatcher": options.dispatchers,
        "scheduler": options.schedulers,
        "gateway": options.gateways,
        "runner": options.runners,
    }
    services = [
        Service(service, number, ports.take(), ports.take(), launch)
        for service, count in counts.items()
        for number in range(1, count + 1)
    ]
    if options.port:
        first = next(each for each in services if each.service == "gateway")
        _move_to(first, options.port)
    return services


def _move_to(gateway: Service, port: int) -> None:
    # gRPC listens with SO_REUSEPORT: it would not fail, but share the port with a stranger.
    if not is_free(HOST, port):
        raise DevError(
            f"port {port} of {HOST} is taken by another program (another `jobmesh dev`?): choose "
            "one with --port, or --port 0 for any that is free"
        )
    gateway.port = port
    if port < 65535 and is_free(HOST, port + 1):
        gateway.http_port = port + 1


def service_command(service: str) -> tuple[str, ...]:
    """What runs a service."""
    return (*COMMAND, service)


def equip(
    services: list[Service],
    options: DevOptions,
    data: DataDirectory,
    backends: Backends,
    command: Callable[[str], tuple[str, ...]],
) -> None:
    """Give every service its program."""
    for each in services:
        settings = _common(services, each) | _own(each, options, backends)
        each.program = Program(
            name=each.name,
            command=command(each.service),
            log=data.log(each.name),
            environment=os.environ | _defaults(backends) | settings,
        )


def _common(services: list[Service], own: Service) -> dict[str, str]:
    def addresses(service: str) -> str:
        return ",".join(each.address for each in services if each.service == service)

    return {
        "JOBMESH_HOST": HOST,
        "JOBMESH_PORT": str(own.port),
        "JOBMESH_HTTP_PORT": str(own.http_port),
        "JOBMESH_DISPATCHERS": addresses("dispatcher"),
        "JOBMESH_SCHEDULERS": addresses("scheduler"),
        "JOBMESH_ADDRESS": addresses("gateway"),
        "PYTHONUNBUFFERED": "1",
    }


def _own(service: Service, options: DevOptions, backends: Backends) -> dict[str, str]:
    """What only this service gets: handlers have no business in jobmesh's own database."""
    postgres = {"JOBMESH_POSTGRES_DSN": backends.postgres}
    nats = {"JOBMESH_NATS_URL": backends.nats}
    of = {
        "gateway": nats,
        "dispatcher": postgres | nats,
        "scheduler": postgres,
        "runner": {"JOBMESH_APP": ",".join(options.apps), "JOBMESH_RUNNER_ID": service.name},
    }
    return of[service.service]


def _defaults(backends: Backends) -> Mapping[str, str]:
    """What the caller may have set otherwise."""
    return {"FLIGHTS_DSN": os.environ.get("FLIGHTS_DSN") or backends.flights}
