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

DUE_SCHEDULES: Final = _load("due_schedules")
NEXT_WAKE: Final = _load("next_wake")
MOVE_CURSORS: Final = _load("move_cursors")
NOW: Final = _load("now")
STORE_SCHEDULE: Final = _load("store_schedule")
READ_SCHEDULE: Final = _load("read_schedule")
LOCK_SCHEDULE: Final = _load("lock_schedule")
CHANGE_SCHEDULE: Final = _load("change_schedule")
DROP_SCHEDULE: Final = _load("drop_schedule")
FIND_SCHEDULES: Final = _load("find_schedules")
FIND_FIRINGS: Final = _load("find_firings")
