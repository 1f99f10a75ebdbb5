"""What an earlier start left running."""

from __future__ import annotations

import asyncio
import signal
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from jobmesh.dev.errors import DevError
from jobmesh.dev.orphans import end_orphan
from tests.support.leaks import command_of
from tests.support.wait import until


@pytest.fixture
async def orphan(tmp_path: Path) -> AsyncIterator[int]:
    """A process that has the test's directory on its command line."""
    code = "import time; time.sleep(60)"
    process = await asyncio.create_subprocess_exec(sys.executable, "-c", code, str(tmp_path))
    await until(lambda: str(tmp_path) in command_of(process.pid))
    yield process.pid
    if process.returncode is None:
        process.kill()
    await process.wait()


async def test_it_is_ended(orphan: int, tmp_path: Path) -> None:
    (tmp_path / "pid").write_text(f"{orphan}\n")
    await end_orphan(tmp_path / "pid", str(tmp_path), signal.SIGTERM)
    assert command_of(orphan) in ("gone", "a zombie")


async def test_one_that_does_not_end_is_told(
    orphan: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "pid").write_text(f"{orphan}\n")
    monkeypatch.setattr("jobmesh.dev.orphans.ORPHAN_GRACE", 0.01)
    monkeypatch.setattr("jobmesh.dev.orphans._signal", lambda *_: None)  # as if it hung in the disk
    with pytest.raises(DevError, match=f"process {orphan} of an earlier start does not end"):
        await end_orphan(tmp_path / "pid", str(tmp_path), signal.SIGTERM)
