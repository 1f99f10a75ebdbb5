"""Everything done with the contract in ``protos/``: stubs, drift, lint, compatibility.

    python tools/protos.py generate   write the stubs into src/
    python tools/protos.py check      drift of the stubs, buf lint, format and breaking
    python tools/protos.py release    make the present contract the one not to break

buf works on a directory with ``buf.yaml``; each step takes that directory, so that a test can
run them on a copy.
"""

from __future__ import annotations

import argparse
import filecmp
import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Sequence
from importlib.metadata import files
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SCRIPTS = sysconfig.get_path("scripts")
STUBS = "*_pb2*.py*"
RELEASED = "protos/jobmesh-v0.1.binpb"
"""Image of the contract as last released, relative to the repository."""


class StepFailed(Exception):
    """A step found something wrong and has said what."""


def generate(root: Path, out: Path) -> None:
    """Write the stubs of ``root``'s contract below ``out``, as ``out/jobmesh/v1/*_pb2*.py*``."""
    imports = copy_imports(root)
    sources = sorted(str(path) for path in (root / "protos" / "jobmesh").rglob("*.proto"))
    plugins = ("--python_out=", "--grpc_python_out=", "--mypy_out=quiet:", "--mypy_grpc_out=quiet:")
    protoc = (sys.executable, "-m", "grpc_tools.protoc")
    includes = (f"-I{root / 'protos'}", f"-I{imports}")
    run(*protoc, *includes, *(f"{plugin}{out}" for plugin in plugins), *sources)


def check_drift(root: Path) -> None:
    """Compare the committed stubs with ones generated now."""
    with tempfile.TemporaryDirectory() as scratch:
        fresh, committed = Path(scratch) / "jobmesh" / "v1", root / "src" / "jobmesh" / "v1"
        generate(root, Path(scratch))
        names = sorted({path.name for at in (fresh, committed) for path in at.glob(STUBS)})
        _, different, missing = filecmp.cmpfiles(fresh, committed, names, shallow=False)
    if different or missing:
        listed = ", ".join(different + missing)
        raise StepFailed(f"stubs differ from the contract: {listed}; run `make protos`")


def lint(root: Path) -> None:
    copy_imports(root)
    buf(root, "lint")
    buf(root, "format", "protos", "--diff", "--exit-code")


def check_breaking(root: Path, released: Path) -> None:
    """Refuse a contract that a client of the released one could not speak."""
    copy_imports(root)
    buf(root, "breaking", "protos", "--against", str(released), "--exclude-imports")


def release(root: Path, image: Path) -> None:
    copy_imports(root)
    buf(root, "build", "protos", "--output", str(image), "--exclude-source-info")


def copy_imports(root: Path) -> Path:
    """Copy google/**.proto from the installed package to where ``buf.yaml`` looks for them."""
    target = root / "build" / "googleapis"
    for source in files("googleapis-common-protos") or ():
        if source.suffix == ".proto":
            copy = target / source
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(str(source.locate()), copy)
    return target


def buf(root: Path, *arguments: str) -> None:
    run(f"{SCRIPTS}/buf", *arguments, cwd=root)


def run(*command: str, cwd: Path | None = None) -> None:
    """Run with this environment's scripts on the path, where protoc looks for its plugins."""
    env = os.environ | {"PATH": os.pathsep.join((SCRIPTS, os.environ.get("PATH", os.defpath)))}
    done = subprocess.run(command, cwd=cwd, env=env, stdin=subprocess.DEVNULL, check=False)
    if done.returncode:
        raise StepFailed(f"failed: {Path(command[0]).name} {' '.join(command[1:4])}")


def check(root: Path) -> None:
    check_drift(root)
    lint(root)
    check_breaking(root, root / RELEASED)


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("step", choices=("generate", "check", "release"))
    step = parser.parse_args(arguments).step
    try:
        if step == "generate":
            generate(ROOT, ROOT / "src")
        elif step == "check":
            check(ROOT)
        else:
            release(ROOT, ROOT / RELEASED)
    except StepFailed as failure:
        print(f"protos: {failure}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
