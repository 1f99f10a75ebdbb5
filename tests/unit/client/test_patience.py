from __future__ import annotations

import asyncio

import pytest

from jobmesh.client.patience import Patience
from jobmesh.errors import BackendUnavailable, Unavailable


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
