"""A loop that is blocked is noticed, with the place where it was."""

from __future__ import annotations

import asyncio
import logging
import time

import pytest

from jobmesh.server import metrics
from jobmesh.server.watchdog import Watchdog
from tests.support.wait import until


def block_the_loop() -> None:
    time.sleep(0.4)


async def test_a_blocked_loop_is_counted_and_logged_with_its_stack(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.WARNING)
    watchdog = Watchdog(interval_seconds=0.01, threshold_seconds=0.1)
    before = metrics.REGISTRY.get_sample_value("jobmesh_loop_blocked_total") or 0
    await watchdog.start()
    await asyncio.sleep(0.05)  # a beat or more, so that the blocking falls between two
    block_the_loop()
    await until(lambda: watchdog.blocked >= 1, 5, "the lag is noticed")
    await watchdog.stop()
    assert watchdog.longest > 0.3
    assert "block_the_loop" in caplog.text
    assert (metrics.REGISTRY.get_sample_value("jobmesh_loop_blocked_total") or 0) > before


async def test_a_free_loop_is_left_in_peace(caplog: pytest.LogCaptureFixture) -> None:
    watchdog = Watchdog(interval_seconds=0.001, threshold_seconds=5)
    await watchdog.start()
    await watchdog.start()
    await asyncio.sleep(0.02)
    await watchdog.stop()
    await watchdog.stop()
    assert watchdog.blocked == 0
    assert caplog.text == ""


async def test_one_never_started_can_be_stopped() -> None:
    await Watchdog().stop()
