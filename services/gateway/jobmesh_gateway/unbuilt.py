"""Calls of the contract that this release does not answer yet."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NoReturn

from jobmesh.errors import Unimplemented


def not_built(method: str, instead: str) -> NoReturn:
    """Refuse the call, and say what to do instead."""
    raise Unimplemented(f"{method} is not built yet; {instead}")


def no_events(method: str, instead: str) -> Iterable[Any]:
    """For streams: refuses the call when it is iterated over."""
    not_built(method, instead)
