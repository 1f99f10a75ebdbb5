"""One process kept running."""

from __future__ import annotations

import asyncio
import errno
import itertools
import signal
import sys
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from jobmesh.dev.child import Child, Program
from jobmesh.dev.errors import DevError, ProgramFailed
from jobmesh.dev.keeper import Keeper
from tests.support.wait import until

STAYS = "import time; time.sleep(60)"
ENDS = "import sys; sys.exit('cannot go on')"


class Tiny:
    """Serves once its file exists; `code` is what its next life runs."""

    name = "tiny"

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.code = STAYS
        self.child: Child | None = None
        self.ready = True
        self.starts = 0
        self.refusals = 0
        self.refusal: Exception = DevError("not now")

    async def start(self) -> None:
        self.starts += 1
        if self.refusals:
            self.refusals -= 1
            raise self.refusal
        command = (sys.executable, "-c", self.code)
        self.child = await Child.start(
            Program(name=self.name, command=command, log=self.directory / "tiny.log")
        )

    async def serves(self) -> bool:
        return self.ready

    async def stop(self) -> None:
        if self.child is not None:
            await self.child.stop((signal.SIGTERM, 5))

    def kill(self) -> None:
        if self.child is not None:
            self.child.kill()


@pytest.fixture
def tiny(tmp_path: Path) -> Tiny:
    return Tiny(tmp_path)


@pytest.fixture
async def keep(tiny: Tiny) -> AsyncIterator[Callable[..., Keeper]]:
    kept: list[tuple[Keeper, asyncio.Task[None]]] = []

    def start(on_serving: Callable[[Keeper], None] = lambda keeper: None) -> Keeper:
        keeper = Keeper(tiny, on_serving)
        kept.append((keeper, asyncio.create_task(keeper.run())))
        return keeper

    yield start
    for keeper, task in kept:
        await keeper.stop()
        await asyncio.gather(task, return_exceptions=True)


async def test_a_killed_process_is_started_again(keep: Callable[..., Keeper]) -> None:
    served: list[int | None] = []
    keeper = keep(lambda keeper: served.append(keeper.pid))
    await until(lambda: len(served) == 1)
    assert keeper.kept.child is not None
    keeper.kept.child.send(signal.SIGKILL)
    await until(lambda: len(served) == 2)
    assert served[0] != served[1] == keeper.pid
    assert keeper.serving.is_set()


async def test_one_that_does_not_serve_is_not_announced(
    tiny: Tiny, keep: Callable[..., Keeper]
) -> None:
    tiny.ready = False
    keeper = keep()
    await until(lambda: tiny.child)
    assert not keeper.serving.is_set()
    tiny.ready = True
    await asyncio.wait_for(keeper.serving.wait(), 5)


async def test_one_that_never_came_to_serve_is_given_up(tiny: Tiny) -> None:
    tiny.code, tiny.ready = ENDS, False
    with pytest.raises(ProgramFailed, match="cannot go on"):
        await asyncio.wait_for(Keeper(tiny, lambda keeper: None).run(), 30)
    assert tiny.starts == 3


async def test_one_that_has_served_is_never_given_up(
    tiny: Tiny, keep: Callable[..., Keeper]
) -> None:
    keeper = keep()
    await asyncio.wait_for(keeper.serving.wait(), 5)
    tiny.refusals = 3
    assert tiny.child is not None
    tiny.child.kill()
    await until(lambda: tiny.starts == 5 and keeper.serving.is_set())


async def test_one_that_has_served_outlives_what_the_system_refuses(
    tiny: Tiny, keep: Callable[..., Keeper]
) -> None:
    keeper = keep()
    await asyncio.wait_for(keeper.serving.wait(), 5)
    tiny.refusals, tiny.refusal = 2, BlockingIOError(errno.EAGAIN, "Resource unavailable")
    assert tiny.child is not None
    tiny.child.kill()
    await until(lambda: tiny.starts == 4 and keeper.serving.is_set())


@pytest.mark.parametrize(
    ("refusal", "words"),
    [(BlockingIOError(errno.EAGAIN, "No more"), "No more"), (TimeoutError(), "TimeoutError")],
)
async def test_what_the_system_refuses_is_told_with_the_name(
    tiny: Tiny, refusal: Exception, words: str
) -> None:
    tiny.refusals, tiny.refusal = 3, refusal
    with pytest.raises(DevError, match=f"tiny: cannot be started: .*{words}"):
        await asyncio.wait_for(Keeper(tiny, lambda keeper: None).run(), 30)
    assert tiny.starts == 3


async def test_the_pauses_grow(
    tiny: Tiny, keep: Callable[..., Keeper], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("jobmesh.dev.keeper.LONGEST_BACKOFF", 0.4)
    times: list[float] = []
    keep(lambda keeper: times.append(asyncio.get_running_loop().time()))
    tiny.code = "pass"
    await until(lambda: len(times) >= 5, 20)
    pauses = [after - before for before, after in itertools.pairwise(times)]
    assert pauses[0] >= 0.1
    assert pauses[1] >= 0.2
    assert pauses[2] >= 0.4


async def test_a_stop_ends_the_pause(tiny: Tiny) -> None:
    keeper = Keeper(tiny, lambda keeper: None)
    task = asyncio.create_task(keeper.run())
    await asyncio.wait_for(keeper.serving.wait(), 5)
    tiny.refusals = 1_000_000
    assert tiny.child is not None
    tiny.child.kill()
    await until(lambda: tiny.starts >= 3)
    await keeper.stop()
    await asyncio.wait_for(task, 1)


async def test_a_stop_before_the_start_starts_nothing(tiny: Tiny) -> None:
    keeper = Keeper(tiny, lambda keeper: None)
    await keeper.stop()
    await asyncio.wait_for(keeper.run(), 1)
    assert tiny.starts == 0
