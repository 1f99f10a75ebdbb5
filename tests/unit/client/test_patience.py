from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from jobmesh.client.credentials import Credentials
from jobmesh.client.patience import Patience
from jobmesh.errors import BackendUnavailable, Unauthenticated, Unavailable


async def test_patience_ends_after_its_time_with_the_last_error() -> None:
    patience = Patience(0.2)
    began = asyncio.get_running_loop().time()
    for number in range(1, 3):
        await patience.pause(Unavailable(f"try {number}"))
    with pytest.raises(Unavailable, match="the last"):
        await patience.pause(Unavailable("the last", retry_after=1))
    assert asyncio.get_running_loop().time() - began < 0.2


async def test_success_gives_patience_anew() -> None:
    patience = Patience(0.15)
    for _ in range(6):
        await patience.pause(Unavailable("again"))
        patience.reset()


async def test_patience_waits_as_long_as_the_mesh_asks_for() -> None:
    clock = asyncio.get_running_loop().time
    began = clock()
    await Patience(5).pause(BackendUnavailable("dispatcher", retry_after=0.3))
    assert clock() - began >= 0.3


async def test_no_patience_means_one_try() -> None:
    with pytest.raises(Unavailable):
        await Patience(0).pause(Unavailable("gone"))


def test_a_token_is_read_again_when_its_file_changes(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text("one\n")
    credentials = Credentials(file, "teams.a")
    assert credentials.metadata() == (
        ("authorization", "Bearer one"),
        ("jobmesh-namespace", "teams.a"),
    )
    file.write_text("other")
    assert ("authorization", "Bearer other") in credentials.metadata()
    assert Credentials().metadata() == ()


def test_a_token_that_cannot_be_read_is_an_error_that_names_the_file(tmp_path: Path) -> None:
    with pytest.raises(Unauthenticated, match=r"absent.*No such file"):
        Credentials(tmp_path / "absent").metadata()
