"""The scheduler's SQL: one statement a file in ``sql/``, loaded once."""

from __future__ import annotations

from importlib.resources import files
from typing import Final


def _load(name: str) -> str:
    return files(__package__).joinpath("sql", f"{name}.sql").read_text("utf-8")


READ_LEADERSHIP: Final = _load("read_leadership")
TAKE_LEADERSHIP: Final = _load("take_leadership")
RENEW_LEADERSHIP: Final = _load("renew_leadership")
RELEASE_LEADERSHIP: Final = _load("release_leadership")
