from __future__ import annotations

import asyncio
import functools
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import pytest

from jobmesh import App, InvalidArguments, InvalidDuration, InvalidTask, JobContext, Retry, Task
from jobmesh.task import is_async


def test_a_task_is_still_the_function() -> None:
    app = App()

    @app.task("maths.add")
    def add(a: int, b: int = 2) -> int:
        """Adds."""
        return a + b

    assert add(1) == 3
    assert (add.name, add.__name__, add.__doc__) == ("maths.add", "add", "Adds.")
    assert not add.is_async
    assert dict(app.tasks) == {"maths.add": add}


async def test_an_async_task_is_awaited_as_before() -> None:
    app = App()

    @app.task("double")
    async def double(n: int) -> int:
        return 2 * n

    assert double.is_async
    assert await double(4) == 8


def outer(n: int) -> int:
    return n


def test_the_name_is_module_and_function_by_default() -> None:
    app = App()
    assert app.task(outer).name == f"{__name__}.outer"


def test_a_spec_carries_the_options() -> None:
    app = App()

    @app.task(
        "reports.make", queue="reports", timeout="10m", retry=Retry(max_attempts=2), priority=7
    )
    def make(month: str) -> None: ...

    spec = make.spec({"month": "2026-10"})

    assert (spec.type, spec.queue, spec.priority) == ("reports.make", "reports", 7)
    assert spec.timeout.ToSeconds() == 600
    assert spec.retry_policy.max_attempts == 2
    assert (spec.payload.data, spec.payload.content_type) == (
        b'{"month":"2026-10"}',
        "application/json",
    )


def test_what_is_not_set_is_not_sent() -> None:
    spec = Task(outer, "plain").spec({"n": 1})

    assert not spec.HasField("timeout")
    assert not spec.HasField("retry_policy")
    assert not spec.HasField("priority")


def test_a_spec_refuses_arguments_that_do_not_fit() -> None:
    with pytest.raises(InvalidArguments, match=r"^n: Expected int"):
        Task(outer, "plain").spec({"n": "1"})


def test_a_second_task_of_the_same_name_is_refused() -> None:
    app = App()
    app.task("one")(outer)
    with pytest.raises(InvalidTask, match=r"one is registered already, by .*outer"):
        app.task("one")(lambda: None)


def test_apps_are_put_together() -> None:
    first, second = App(), App()
    first.task("one")(outer)
    task = second.task("two")(outer)
    first.include(second)
    first.include(second)  # the same tasks again: nothing new

    assert set(first.tasks) == {"one", "two"}
    assert first.tasks["two"] is task


async def agen() -> AsyncIterator[int]:
    yield 1


def gen() -> Iterator[int]:
    yield 1


@pytest.mark.parametrize(
    "make",
    [
        lambda app: app.task("")(outer),
        lambda app: app.task("with space")(outer),
        lambda app: app.task("x" * 201)(outer),
        lambda app: app.task("naïve")(outer),
        lambda app: app.task("ok", queue="no/slash")(outer),
        lambda app: app.task("ok", timeout=0)(outer),
        lambda app: app.task("ok", timeout="400d")(outer),
        lambda app: app.task("ok", priority=10)(outer),
        lambda app: app.task("ok", priority=True)(outer),
        lambda app: app.task("ok", heartbeat_timeout=0.5)(outer),
        lambda app: app.task("ok", expires_after="400d")(outer),
        lambda app: app.task("ok")(agen),
        lambda app: app.task("ok")(gen),
        lambda app: app.task("ok")(int),
        lambda app: app.task("ok")(app.task("other")(outer)),
        lambda app: app.task(lambda: None),
    ],
)
def test_what_cannot_be_a_task_is_refused(make: Callable[[App], Any]) -> None:
    app = App()
    with pytest.raises(InvalidTask):
        make(app)
    assert "ok" not in app.tasks


def test_a_task_says_how_its_jobs_are_run_and_how_long_they_may_wait() -> None:
    make = App().task("ok", process=True, heartbeat_timeout="30s", expires_after="1h", timeout=2)
    task = make(outer)
    spec = task.spec({"n": 1})
    assert task.process
    assert (spec.heartbeat_timeout.seconds, spec.expires_after.seconds) == (30, 3600)
    assert spec.timeout.seconds == 2


def test_a_timeout_that_cannot_be_read_is_refused() -> None:
    with pytest.raises(InvalidDuration, match=r"^timeout: "):
        App().task("ok", timeout="a while")(outer)


class Handler:
    async def __call__(self, job: JobContext) -> None: ...


async def coro() -> None: ...


@pytest.mark.parametrize(
    ("function", "expected"),
    [
        (coro, True),
        (functools.partial(coro), True),
        (Handler(), True),
        (outer, False),
        (functools.partial(outer, 1), False),
        (asyncio.sleep, True),
    ],
)
def test_what_runs_on_the_loop_is_told_from_what_needs_a_thread(
    function: Any, expected: bool
) -> None:
    assert is_async(function) is expected
