"""Each promise in docs/guarantees.md names tests, and they exist."""

from __future__ import annotations

import re
from pathlib import Path

REPOSITORY = Path(__file__).parents[2]
PAGE = (REPOSITORY / "docs" / "guarantees.md").read_text()


def promises() -> list[str]:
    """The rows of the table of promises."""
    table = PAGE.split("## Promised")[1].split("## Not promised")[0]
    return [line for line in table.splitlines() if line.startswith("| ")][2:]


def test_the_tests_that_are_named_exist() -> None:
    sources = "\n".join(path.read_text() for path in (REPOSITORY / "tests").rglob("test_*.py"))
    named = re.findall(r"`(test_\w+)`", PAGE)
    assert len(named) > 10
    assert [name for name in named if f"def {name}(" not in sources] == []


def test_the_files_that_are_named_exist() -> None:
    named = re.findall(r"`(tests/\S+?\.py)`", PAGE)
    assert named
    assert [name for name in named if not (REPOSITORY / name).exists()] == []


def test_no_promise_goes_without_a_test() -> None:
    rows = promises()
    assert len(rows) > 10
    shown = [row.rsplit("|", 2)[1] for row in rows]
    assert [row for row in shown if "test_" not in row and "the same" not in row] == []
