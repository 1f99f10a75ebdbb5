"""The checks that every test passes through."""

from __future__ import annotations

import asyncio
import subprocess
import sys

import pytest

from tests.support.leaks import children, describe, require_no_tasks_beside
from tests.support.wait import until


async def test_a_child_is_seen_until_it_is_waited_for() -> None:
    before = children()
    command = [sys.executable, "-c", "import time; time.sleep(60)"]
    process = subprocess.Popen(command)  # noqa: ASYNC220 - it takes milliseconds
    assert children() - before == {process.pid}
    try:
        # A process that has just begun another program has no command line yet.
        await until(lambda: "sleep(60)" in describe({process.pid}), 5)
    finally:
        process.kill()
        process.wait()
    assert children() == before


async def test_a_task_is_named_unless_it_ends_in_time() -> None:
    before = asyncio.all_tasks()
    ending = asyncio.create_task(asyncio.sleep(0.05))
    await require_no_tasks_beside(before)
    assert ending.done()
    staying = asyncio.create_task(asyncio.Event().wait(), name="the-leak")
    try:
        with pytest.raises(AssertionError, match="the-leak"):
            await require_no_tasks_beside(before)
    finally:
        staying.cancel()
        await asyncio.gather(staying, return_exceptions=True)
