"""What JOBMESH_FAILPOINTS may say; what the points do is seen where a dispatcher dies by them."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from jobmesh.errors import BackendUnavailable
from jobmesh_dispatcher import failpoints
from jobmesh_dispatcher.failpoints import Failpoint, parse, reach


@pytest.fixture(autouse=True)
def disarmed() -> Iterator[None]:
    yield
    failpoints.arm("")


def test_several_points_are_armed_at_once() -> None:
    assert parse(" claim.before=kill*2,finish.after_commit=wait:/tmp/go ,") == {
        "claim.before": Failpoint("kill", "", 2),
        "finish.after_commit": Failpoint("wait", "/tmp/go"),
    }


@pytest.mark.parametrize(
    "text",
    [
        "claim.before",
        "claim.never=kill",
        "claim.before=sleep",
        "claim.before=kill:9",
        "claim.before=wait",
        "claim.before=kill*",
        "claim.before=kill*x",
    ],
)
def test_what_makes_no_sense_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="makes no sense"):
        parse(text)


async def test_nothing_happens_by_itself() -> None:
    for point in failpoints.POINTS:
        await reach(point)


async def test_an_error_comes_as_often_as_asked_for() -> None:
    failpoints.arm("claim.before=error*2")
    for _ in range(2):
        with pytest.raises(BackendUnavailable):
            await reach("claim.before")
    await reach("claim.before")
    await reach("submit.before_commit")


async def test_a_wait_ends_with_its_file(tmp_path: Path) -> None:
    file = tmp_path / "go"
    failpoints.arm(f"claim.before_ack=wait:{file}")
    waiting = asyncio.create_task(reach("claim.before_ack"))
    done, _ = await asyncio.wait({waiting}, timeout=0.05)
    assert not done
    file.touch()
    await asyncio.wait_for(waiting, 5)
