"""Sizes of pages."""

from __future__ import annotations

from jobmesh.validation.violations import Violations

DEFAULT_PAGE_SIZE = 50
MAX_PAGE_SIZE = 1000


def check_page_size(size: int, path: str, found: Violations) -> None:
    """1–1,000, or 0 for the default."""
    if not 0 <= size <= MAX_PAGE_SIZE:
        found.add(path, f"is {size}; it must be 1 to {MAX_PAGE_SIZE}, or 0 for the default")


def page_size_or_default(size: int) -> int:
    """The size that is meant."""
    return size or DEFAULT_PAGE_SIZE
