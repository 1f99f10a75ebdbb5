"""The systemd units as the tests read them."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from pathlib import Path

DIRECTORY = Path(__file__).parents[3] / "deploy" / "systemd"
PROGRAM = "/opt/jobmesh/bin/jobmesh"


@dataclass(frozen=True, slots=True)
class Unit:
    """One file: its settings in order, since a name may come more than once."""

    file: Path
    settings: tuple[tuple[str, str, str], ...]

    def all(self, section: str, name: str) -> list[str]:
        """The values of a setting."""
        return [value for where, key, value in self.settings if (where, key) == (section, name)]

    def one(self, section: str, name: str) -> str:
        """The value of a setting that must come once."""
        (value,) = self.all(section, name)
        return value

    @property
    def command(self) -> list[str]:
        """What it starts."""
        return shlex.split(self.one("Service", "ExecStart"))

    @property
    def service(self) -> str:
        """What it runs, e.g. `gateway`."""
        return self.command[1]

    def environment(self, credentials: Path, instance: str = "1") -> dict[str, str]:
        """What its `Environment=` lines set, with their specifiers filled in."""
        filled = {"%d": str(credentials), "%i": instance, "%H": "host"}
        found = {}
        for line in self.all("Service", "Environment"):
            name, _, value = line.partition("=")
            for specifier, meaning in filled.items():
                value = value.replace(specifier, meaning)
            found[name] = value
        return found


def read(file: Path) -> Unit:
    """Parse a unit file; a line that is none of its kinds fails."""
    settings, section = [], ""
    for line in map(str.strip, file.read_text().splitlines()):
        if not line or line.startswith(("#", ";")):
            continue
        if line.startswith("["):
            section = line.strip("[]")
            continue
        name, equals, value = line.partition("=")
        assert equals, f"{file.name}: {line}"
        assert section, f"{file.name}: {line} is in no section"
        settings.append((section, name, value))
    return Unit(file, tuple(settings))


def services() -> list[Unit]:
    """The units that run something, in the order in which they may be started."""
    order = ("migrate", "dispatcher", "scheduler", "gateway", "runner")
    units = [read(file) for file in sorted(DIRECTORY.glob("*.service"))]
    return sorted(units, key=lambda unit: order.index(unit.service))


def environment_file() -> dict[str, str]:
    """The settings of the example `jobmesh.env`."""
    lines = (DIRECTORY / "jobmesh.env").read_text().splitlines()
    pairs = [line.partition("=") for line in lines if line and not line.startswith("#")]
    return {name: value for name, _, value in pairs}
