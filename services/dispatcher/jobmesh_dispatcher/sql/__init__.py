"""The statements of the dispatcher: one file, one intent each.

`load("claim_jobs")` is the text of `claim_jobs.sql`. Statements name the states they leave and the
attempt or epoch they act under, and take the time from the database.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path

FOLDER = Path(__file__).parent


@cache
def load(name: str) -> str:
    """The text of a statement."""
    return (FOLDER / f"{name}.sql").read_text(encoding="utf-8")
