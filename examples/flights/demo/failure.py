"""What the demo ends with when something is not as it should be."""

from __future__ import annotations


class DemoFailed(Exception):
    """The message is for the person who ran it."""


def require(holds: bool, otherwise: str) -> None:
    """An assert that no flag of Python turns off."""
    if not holds:
        raise DemoFailed(otherwise)
