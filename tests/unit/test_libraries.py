"""Nothing is depended on without a line that says why."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

from packaging.requirements import Requirement

ROOT = Path(__file__).resolve().parents[2]
OURSELVES = "jobmesh"


def required() -> set[str]:
    """Every package that `pyproject.toml` names."""
    pyproject = tomllib.loads((ROOT / "pyproject.toml").read_text())
    groups = (
        pyproject["build-system"]["requires"],
        pyproject["project"]["dependencies"],
        *pyproject["project"]["optional-dependencies"].values(),
        *pyproject["dependency-groups"].values(),
    )
    return {Requirement(text).name for group in groups for text in group} - {OURSELVES}


def explained() -> set[str]:
    """Every package in the first column of a table of the decision."""
    decision = (ROOT / "docs/decisions/0002-libraries.md").read_text()
    first_columns = re.findall(r"^\| (`.+?) \|", decision, flags=re.MULTILINE)
    return {name for column in first_columns for name in re.findall(r"`([^`]+)`", column)}


def test_every_library_has_its_reason() -> None:
    assert explained() == required() | {"uv"}
