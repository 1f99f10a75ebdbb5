"""The page for operators names the settings and metrics that there are."""

from __future__ import annotations

import re

from tools.settings_tables import PAGE, with_tables

ROOT = PAGE.parents[1]


def test_the_tables_of_settings_are_up_to_date() -> None:
    page = PAGE.read_text()
    assert with_tables(page) == page, "run: python -m tools.settings_tables"


def test_every_metric_that_is_named_exists() -> None:
    named = set(re.findall(r"`(jobmesh_\w+)`", PAGE.read_text()))
    code = "\n".join(
        path.read_text()
        for folder in ("src/jobmesh/server", "services")
        for path in (ROOT / folder).rglob("*.py")
    )
    assert named
    assert {name for name in named if f'"{name}"' not in code} == set()


def test_every_variable_that_is_named_is_read_somewhere() -> None:
    page = PAGE.read_text()
    own = {"JOBMESH_CONFIG", "JOBMESH_LOG_LEVEL", "JOBMESH_LOG_FORMAT"}
    in_tables = set(re.findall(r"^\| `(JOBMESH_\w+)`", page, re.MULTILINE)) | own
    files = {f"{name}_FILE" for name in in_tables}
    streams = {"JOBMESH_DEAD"}
    assert set(re.findall(r"\bJOBMESH_\w+", page)) <= in_tables | files | streams
