"""Names, ids, labels and notes."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from jobmesh.validation.violations import Violations

MAX_NAME = 200
MAX_NOTE = 1000
MAX_LABELS = 32

_NAME = re.compile(r"[A-Za-z0-9._-]{1,200}")
_SHOWN = 40


def check_name(text: str, path: str, found: Violations) -> None:
    """A queue, a type, a namespace: `[A-Za-z0-9._-]`, 1–200 characters."""
    if not _NAME.fullmatch(text):
        found.add(path, _name_problem(text))


def _name_problem(text: str) -> str:
    if problem := _length_problem(text, MAX_NAME):
        return problem
    return "may have letters, digits and ._- only (A-Z a-z 0-9 . _ -)"


def check_id(text: str, path: str, found: Violations) -> None:
    """A key or an id that a caller chose: 1–200 printable characters of any script."""
    if problem := text_problem(text):
        found.add(path, problem)


def text_problem(text: str, most: int = MAX_NAME) -> str:
    """What is wrong with 1–``most`` printable characters; empty if nothing."""
    if 0 < len(text) <= most and text.isprintable():
        return ""
    return _length_problem(text, most) or _unprintable(text)


def check_note(text: str, path: str, found: Violations) -> None:
    """A remark for people: at most 1,000 printable characters, line breaks and tabs too."""
    if len(text) > MAX_NOTE:
        found.add(path, _length_problem(text, MAX_NOTE))
    elif not text.isprintable():
        plain = text.replace("\n", "").replace("\r", "").replace("\t", "")
        if not plain.isprintable():
            found.add(path, _unprintable(plain))


def check_labels(labels: Mapping[str, str], path: str, found: Violations) -> None:
    """Names and values of 1–200 printable characters, at most 32."""
    if len(labels) > MAX_LABELS:
        found.add(path, f"has {len(labels)} entries, at most {MAX_LABELS} are allowed")
        return
    for name, value in labels.items():
        if problem := text_problem(name):
            found.add(f"{path}[{_shown(name)}]", f"its name {problem}")
        elif problem := text_problem(value):
            found.add(f"{path}[{_shown(name)}]", problem)


def check_names(names: Iterable[str], path: str, found: Violations) -> None:
    """Each of them a name."""
    for index, name in enumerate(names):
        check_name(name, f"{path}[{index}]", found)


def check_ids(ids: Iterable[str], path: str, found: Violations) -> None:
    """Each of them an id."""
    for index, text in enumerate(ids):
        check_id(text, f"{path}[{index}]", found)


def _length_problem(text: str, most: int) -> str:
    if not text:
        return f"must not be empty; it has 1 to {most} characters"
    if len(text) > most:
        return f"has {len(text)} characters, at most {most} are allowed"
    return ""


def _unprintable(text: str) -> str:
    char = next(char for char in text if not char.isprintable())
    return f"has the unprintable character U+{ord(char):04X}"


def _shown(name: str) -> str:
    """A name within a path: escaped, and not longer than what it is to explain."""
    return ascii(name if len(name) <= _SHOWN else name[:_SHOWN] + "...").replace("'", '"')
