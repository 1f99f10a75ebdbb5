"""Every command and program shown in the documents works as shown, against a running mesh."""

from __future__ import annotations

import ast
import asyncio
import io
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from jobmesh.cli.schedule_file import read_file
from tests.support.console import blocks, differences, run, steps
from tests.support.mesh import REPOSITORY, DevMesh
from tests.support.process import clean_environment

PAGES = [REPOSITORY / "README.md", *sorted((REPOSITORY / "docs").glob("*.md"))]
# Pages of which only the links are looked at here.
FURTHER = [
    *(REPOSITORY / name for name in ("CONTRIBUTING.md", "CHANGELOG.md")),
    *(REPOSITORY / name / "README.md" for name in ("deploy", "examples", "benchmarks")),
    *sorted((REPOSITORY / "docs/decisions").glob("*.md")),
]
APPS = ("reports:app", "greetings:app", "mail:app", "campaign:app", "examples.hello.app:app")
ADDRESS = "127.0.0.1:7480"
# Commands that are not run here, and where they are.
ELSEWHERE = {
    "make demo": "tests/acceptance/test_demo.py",
    "make test": "this is it",
    "make dev": "tests/acceptance/test_dev.py",
    ". .venv/bin/activate": "the environment of this test",
    **{
        f"jobmesh {service}": "tests/acceptance/deploy"
        for service in ("migrate", "dispatcher", "scheduler", "gateway")
    },
    "jobmesh runner --app module:app": "tests/acceptance/deploy",
    "jobmesh dev --app reports:app": "the mesh of this test",
    "jobmesh dev --app greetings:app": "the mesh of this test",
}


@dataclass
class Place:
    """A folder with the programs of all pages, and a mesh that serves their apps."""

    folder: Path
    mesh: DevMesh


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    folder = tmp_path_factory.mktemp("docs")
    mesh = DevMesh(tmp_path_factory.mktemp("mesh"))
    options = [word for app in APPS for word in ("--app", app)]
    with asyncio.Runner() as runner:
        try:
            write_programs(folder, ADDRESS)
            path = f"{folder}:{REPOSITORY}"
            runner.run(mesh.start(*options, PYTHONPATH=path))
            runner.run(mesh.ready())
            write_programs(folder, mesh.gateway)
            yield Place(folder, mesh)
        finally:
            runner.run(mesh.__aexit__(None, None, None))


def write_programs(folder: Path, address: str) -> None:
    """Put every Python block that begins with its file's name into that file."""
    for page in PAGES:
        for block in blocks(page.read_text(), "python"):
            if named := re.match(r"# (\w+\.py)\n", block):
                (folder / named[1]).write_text(block.replace(ADDRESS, address))


@pytest.mark.timeout(150)
@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_the_sessions_of_a_page_go_as_shown(page: Path, place: Place) -> None:
    session = [step for block in blocks(page.read_text(), "console") for step in steps(block)]
    for step in session:
        step.command = step.command.replace(ADDRESS, place.mesh.gateway)
    programs = Path(sys.executable).parent
    own = {"JOBMESH_ADDRESS": place.mesh.gateway, "PATH": f"{programs}:/usr/bin:/bin"}
    run(session, place.folder, clean_environment() | own, 120)
    wrong = [found for step in session if (found := differences(step)) is not None]
    assert not wrong, "\n\n".join(wrong)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_what_is_not_run_here_is_run_elsewhere(page: Path) -> None:
    for block in blocks(page.read_text(), "sh"):
        for line in block.splitlines():
            assert re.sub(r"\s+#.*", "", line) in ELSEWHERE


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_python_shown_is_python(page: Path) -> None:
    for block in blocks(page.read_text(), "python"):
        compile(block, page.name, "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)


def test_the_schedule_file_shown_is_one() -> None:
    page = REPOSITORY / "docs/schedules.md"
    (block,) = blocks(page.read_text(), "yaml")
    file = io.StringIO(block)
    file.name = page.name
    owner, schedules = read_file(file)
    assert owner == "reports"
    assert [schedule.schedule_id for schedule in schedules] == ["nightly"]


@pytest.mark.parametrize(
    "page", PAGES + FURTHER, ids=lambda page: str(page.relative_to(REPOSITORY))
)
def test_links_lead_somewhere(page: Path) -> None:
    for link in re.findall(r"\]\(([^)#]+)", page.read_text()):
        assert link.startswith("https://") or (page.parent / link).exists(), link
