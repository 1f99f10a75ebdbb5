"""`make demo` holds what it promises, and leaves nothing running."""

from __future__ import annotations

import asyncio
import sys
from asyncio.subprocess import DEVNULL, PIPE, STDOUT
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.timeout(200)
async def test_the_demo_resumes_a_killed_import(tmp_path: Path) -> None:
    demo = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "examples.flights.demo", "--directory", str(tmp_path)),
        cwd=ROOT,
        stdin=DEVNULL,
        stdout=PIPE,
        stderr=STDOUT,
    )
    output, _ = await demo.communicate()
    said = output.decode()
    assert demo.returncode == 0, said
    assert "SIGKILL to runner-" in said
    assert "resumed: attempt 2 went on from checkpoint {'next_row': " in said
    assert "336776 distinct rows" in said
    assert (tmp_path / "report.html").read_text().startswith("<!doctype html>")
