"""Owners await their tasks; periodic calls never overlap and outlive failures."""

from __future__ import annotations

import asyncio
import logging

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobmesh.server.tasks import Periodic, TaskOwner, next_pause, set_failure_handler
from tests.support.wait import until


async def test_stop_cancels_and_awaits_cleanup() -> None:
    cleaned = []

    async def work() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0)
            cleaned.append(True)

    owner = TaskOwner()
    owner.spawn("work", work())
    await asyncio.sleep(0)
    await owner.stop()
    assert cleaned == [True]
    assert len(owner) == 0
    await owner.stop()


async def test_a_task_that_swallows_one_cancellation_is_stopped_all_the_same() -> None:
    async def stubborn() -> None:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            await asyncio.sleep(0.001)

    owner = TaskOwner()
    task = owner.spawn("stubborn", stubborn())
    await asyncio.sleep(0)
    await owner.stop()
    assert task.done()


async def test_a_failed_task_is_logged_and_told(caplog: pytest.LogCaptureFixture) -> None:
    told: list[tuple[str, BaseException]] = []
    owner = TaskOwner(lambda name, error: told.append((name, error)))

    async def broken() -> None:
        raise ValueError("broken")

    task = owner.spawn("feeder", broken())
    await asyncio.wait({task})
    await until(lambda: told, 5, "the failure is told")
    assert told == [("feeder", task.exception())]
    assert "task feeder failed" in caplog.text
    await owner.stop()


async def test_the_failure_handler_of_the_context_is_the_default() -> None:
    told: list[str] = []
    set_failure_handler(lambda name, error: told.append(name))
    owner = TaskOwner()

    async def broken() -> None:
        raise ValueError

    owner.spawn("x", broken())
    await until(lambda: told == ["x"], 5, "the failure is told")
    await owner.stop()


async def test_a_stopped_owner_takes_no_task() -> None:
    owner = TaskOwner()
    await owner.stop()
    with pytest.raises(RuntimeError, match="stopping"):
        owner.spawn("late", asyncio.sleep(0))


class Counted:
    def __init__(self, failures: int = 0) -> None:
        self.calls = self.running = self.most_running = 0
        self.failures = failures

    async def __call__(self) -> None:
        self.calls += 1
        self.running += 1
        self.most_running = max(self.most_running, self.running)
        await asyncio.sleep(0.001)
        self.running -= 1
        if self.calls <= self.failures:
            raise ConnectionError("no")


async def test_it_calls_again_and_again_and_never_twice_at_once() -> None:
    calls = Counted()
    loop = Periodic("tick", 0.0, calls)
    await loop.start()
    await loop.start()
    await until(lambda: calls.calls >= 5, 5, "five calls")
    await loop.stop()
    assert calls.most_running == 1
    await loop.stop()


async def test_failures_are_logged_and_survived(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    calls = Counted(failures=3)
    loop = Periodic("tick", 0.001, calls)
    await loop.start()
    await until(lambda: calls.calls >= 5, 5, "five calls")
    await loop.stop()
    assert caplog.text.count("tick failed") == 3
    assert caplog.text.count("Traceback") == 1
    assert "works again after 3 failure(s)" in caplog.text


async def test_a_call_that_hangs_is_ended_by_its_timeout() -> None:
    ended = []

    async def hang() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.append(True)

    loop = Periodic("hang", 0.001, hang, timeout=0.005)
    await loop.start()
    await until(lambda: len(ended) >= 2, 5, "two calls ended")
    await loop.stop()
    assert loop.failures >= 2


async def test_wake_skips_the_pause() -> None:
    calls = Counted()
    loop = Periodic("rare", 3600, calls, delay_first=True)
    await loop.start()
    await asyncio.sleep(0)
    assert calls.calls == 0
    loop.wake()
    await until(lambda: calls.calls == 1, 5, "the first call")
    loop.wake()
    await until(lambda: calls.calls == 2, 5, "the second call")
    await loop.stop()


async def test_a_wake_during_a_call_is_not_lost() -> None:
    entered, release = asyncio.Event(), asyncio.Event()
    calls = 0

    async def slow() -> None:
        nonlocal calls
        calls += 1
        entered.set()
        await release.wait()

    loop = Periodic("slow", 3600, slow)
    await loop.start()
    await entered.wait()
    loop.wake()
    release.set()
    await until(lambda: calls == 2, 5, "the second call")
    await loop.stop()


async def test_one_that_never_started_can_be_stopped() -> None:
    loop = Periodic("never", 1, Counted())
    await loop.stop()


@given(st.floats(0.001, 100), st.integers(0, 10_000), st.floats(0.001, 100))
def test_pauses_grow_to_their_limit_and_never_below_the_interval(
    interval: float, failures: int, limit: float
) -> None:
    pause = next_pause(interval, failures, limit)
    assert interval <= pause <= max(interval, limit)
    assert next_pause(interval, failures + 1, limit) >= pause
