"""The built wheel works where nothing but its own requirements is installed."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from collections.abc import Sequence
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
UV = ROOT / "build" / "tools" / "uv"
FOUR = ("jobmesh_dispatcher", "jobmesh_gateway", "jobmesh_runner", "jobmesh_scheduler")

pytestmark = pytest.mark.timeout(180)


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("dist")
    run([str(uv()), "build", "--wheel", "--out-dir", str(out), str(ROOT)])
    (built,) = out.glob("*.whl")
    return built


@pytest.fixture(scope="module")
def clean_python(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The Python of a fresh environment that holds the wheel without extras."""
    venv = tmp_path_factory.mktemp("clean") / "venv"
    run([str(uv()), "venv", "--python", sys.executable, str(venv)])
    python = venv / "bin" / "python"
    run([str(uv()), "pip", "install", "--python", str(python), str(wheel)])
    return python


def test_the_wheel_holds_library_services_and_their_sql(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
    packages = {name.split("/")[0] for name in names if ".dist-info/" not in name}
    assert packages == {"jobmesh", *FOUR}
    assert {f"{package}/py.typed" for package in packages} <= set(names)
    on_disk = {path.name for path in ROOT.glob("services/*/*/**/*.sql")}
    assert on_disk == {name.rsplit("/", 1)[-1] for name in names if name.endswith(".sql")}


def test_client_and_task_sdk_import_without_extras(clean_python: Path) -> None:
    program = "from jobmesh import App, JobContext, Retry, connect; print(App.__name__)"
    assert run([str(clean_python), "-W", "error", "-c", program]) == "App\n"


def test_the_command_line_starts_without_extras(clean_python: Path) -> None:
    said = run([str(clean_python.with_name("jobmesh")), "--version"])
    (version,) = (w for w in said.split() if w[0].isdigit())
    program = "import importlib.metadata as m; print(m.version('jobmesh'))"
    assert run([str(clean_python), "-c", program]).strip() == version


@pytest.mark.parametrize(
    ("command", "extra"),
    [("dev", "dev"), ("gateway", "server"), ("scheduler", "server"), ("migrate", "server")],
)
def test_what_needs_an_extra_says_how_to_install_it(
    clean_python: Path, command: str, extra: str
) -> None:
    done = subprocess.run(
        [str(clean_python.with_name("jobmesh")), command],
        cwd="/",
        env={"JOBMESH_POSTGRES_DSN": "postgresql://nobody@127.0.0.1:1/none"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2, done.stderr
    assert done.stderr.endswith(f"install it with: pip install 'jobmesh[{extra}]'\n")


def uv() -> Path:
    """`make test` has put it there, or linked the one of this machine."""
    if not UV.exists():
        run([sys.executable, str(ROOT / "tools" / "get_uv.py"), str(UV)])
    return UV


def run(command: Sequence[str]) -> str:
    """In an unrelated directory, so that nothing is imported from the checkout."""
    done = subprocess.run(command, cwd="/", capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{' '.join(command)}\n{done.stdout}{done.stderr}"
    return done.stdout
