"""The smallest examples do what they say."""

from __future__ import annotations

import pytest

from examples.hello.app import TICKS_A_SECOND, app, countdown, flaky, hello
from jobmesh import PermanentError
from jobmesh.testing import Setting, run_task


def test_the_app_knows_its_tasks() -> None:
    assert set(app.tasks) == {"hello", "countdown", "flaky"}


async def test_hello_greets() -> None:
    assert (await run_task(hello)).result == "Hello, world!"
    assert (await run_task(hello, name="Ada")).result == "Hello, Ada!"


async def test_countdown_shows_progress_and_remembers_each_second() -> None:
    run = await run_task(countdown, seconds=1)
    assert [step.current for step in run.progress] == list(range(TICKS_A_SECOND))
    assert run.progress[0].message == "1.0 s to go"
    assert run.checkpoints == [TICKS_A_SECOND]
    assert run.result == "lift-off"


async def test_countdown_goes_on_where_it_was() -> None:
    done = 299 * TICKS_A_SECOND
    run = await run_task(countdown, Setting(attempt=2, restored=done), seconds=300)
    assert run.progress[0].current == done
    assert run.checkpoints == [300 * TICKS_A_SECOND]


@pytest.mark.parametrize("seconds", [0, -1, 301])
async def test_countdown_refuses_what_makes_no_sense(seconds: int) -> None:
    with pytest.raises(PermanentError, match="1 to 300"):
        await run_task(countdown, seconds=seconds)


async def test_flaky_works_at_the_third_attempt() -> None:
    for attempt in (1, 2):
        with pytest.raises(ConnectionError, match=f"attempt {attempt} of 3"):
            await run_task(flaky, Setting(attempt=attempt))
    assert (await run_task(flaky, Setting(attempt=3))).result == "worked at attempt 3"
