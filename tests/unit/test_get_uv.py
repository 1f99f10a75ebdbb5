"""A uv that the machine has is used if it is recent enough."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tools import get_uv


def program(directory: Path, says: str) -> Path:
    """A program called uv that says so about its version."""
    path = directory / "uv"
    path.write_text(f"#!/bin/sh\necho '{says}'\n")
    path.chmod(0o755)
    return path


@pytest.mark.parametrize(
    ("says", "recent"),
    [
        ("uv 0.9.0", True),
        ("uv 0.13.9 (x86_64-unknown-linux-gnu)", True),
        ("uv 1.0.0", True),
        ("uv 0.8.24", False),
        ("something else", False),
    ],
)
def test_only_a_recent_uv_will_do(tmp_path: Path, says: str, recent: bool) -> None:
    assert get_uv.is_recent(str(program(tmp_path, says))) is recent


def test_a_recent_uv_on_the_path_is_linked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    uv = program(tmp_path, "uv 99.0.0")
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    link = tmp_path / "build" / "tools" / "uv"
    get_uv.main(link)
    assert link.readlink() == uv
    get_uv.main(link)  # and again, over the old link
    said = subprocess.run([link], capture_output=True, text=True, check=True)
    assert said.stdout == "uv 99.0.0\n"


def test_a_program_that_cannot_run_is_not_recent(tmp_path: Path) -> None:
    path = tmp_path / "uv"
    path.write_bytes(b"\x7fELF")
    path.chmod(0o755)
    assert not get_uv.is_recent(str(path))
    assert not get_uv.is_recent(str(tmp_path / "absent"))
