"""Directories that several accounts share."""

from __future__ import annotations

from pathlib import Path


def prepare_directory(path: Path) -> None:
    """Make a directory that others may pass through to what is theirs, and not read."""
    for missing in [parent for parent in (path, *path.parents) if not parent.exists()][::-1]:
        missing.mkdir(exist_ok=True)
        missing.chmod(0o711)
