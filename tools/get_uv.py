"""Put a link to a usable uv at the path given, fetching uv by pip where there is none.

Runs on whatever ``python3`` a bare machine has, before any of our requirements are
installed: only the standard library, and syntax that an old Python parses far enough
to print the message below. Nothing is installed outside the repository.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

PYTHON = (3, 11)
UV = (0, 9, 0)
REQUIREMENT = "uv>=" + ".".join(str(part) for part in UV)
NO_PIP = """\
make: uv is not installed, and this python3 has neither pip nor venv to fetch it with.
Install one of them (on Debian: apt-get install python3-pip), or uv itself, and try again."""


def main(link: Path) -> None:
    if sys.version_info < PYTHON:
        found = ".".join(str(part) for part in sys.version_info[:2])
        sys.exit(f"make: Python 3.11 or newer is needed; python3 here is {found}")
    tools = link.parent.absolute()
    uv = on_path() or by_pip(tools / "uv-pip") or by_venv(tools / "uv-venv")
    if uv is None:
        sys.exit(NO_PIP)
    tools.mkdir(parents=True, exist_ok=True)
    link.unlink(missing_ok=True)
    link.symlink_to(uv)


def on_path() -> Path | None:
    found = shutil.which("uv")
    return Path(found).absolute() if found and is_recent(found) else None


def by_pip(target: Path) -> Path | None:
    """``--target`` is allowed on an "externally managed" Python such as Debian's."""
    if not succeeds(sys.executable, "-m", "pip", "--version"):
        return None
    pip_install(sys.executable, "--target", str(target), "--upgrade")
    return target / "bin" / "uv"


def by_venv(target: Path) -> Path | None:
    """Debian splits ensurepip off, so a Python with venv may still make one without pip."""
    if not succeeds(sys.executable, "-m", "venv", "--clear", str(target)):
        return None
    pip_install(str(target / "bin" / "python"))
    return target / "bin" / "uv"


def pip_install(python: str, *where: str) -> None:
    quiet = ("--quiet", "--disable-pip-version-check", "--no-input", "--root-user-action=ignore")
    print(f"fetching {REQUIREMENT} by pip", flush=True)
    command = [python, "-m", "pip", "install", *quiet, *where, REQUIREMENT]
    if subprocess.run(command, stdin=subprocess.DEVNULL, check=False).returncode:
        sys.exit("make: pip could not fetch uv (see above)")


def is_recent(uv: str) -> bool:
    try:
        said = subprocess.run([uv, "--version"], capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return False
    version = re.match(r"uv (\d+)\.(\d+)\.(\d+)", said.stdout)
    return version is not None and tuple(int(part) for part in version.groups()) >= UV


def succeeds(*command: str) -> bool:
    done = subprocess.run(
        command, stdin=subprocess.DEVNULL, capture_output=True, check=False, env=os.environ
    )
    return done.returncode == 0


if __name__ == "__main__":
    main(Path(sys.argv[1]))
