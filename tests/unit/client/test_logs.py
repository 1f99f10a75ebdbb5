"""How long a log is followed though nobody logs, and streams are lost again and again."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from types import SimpleNamespace
from typing import Any, cast

import pytest

from jobmesh.client import logs
from jobmesh.client.calls import Calls
from jobmesh.client.logs import read_log
from jobmesh.errors import DeadlineExceeded, JobmeshError, Unavailable
from jobmesh.v1.job_pb2 import LogLine

LOST = Unavailable("the connection was lost")


class Streams:
    """What :class:`Calls` gives out: one stream after another, each as long as it says."""

    def __init__(self, *ends: tuple[float, JobmeshError | None], patience: float) -> None:
        self.connection = SimpleNamespace(patience=patience, patience_once_begun=0.15)
        self.jobs = SimpleNamespace(ReadLog=None)
        self.opened = 0
        self._ends = iter(ends)

    async def stream(
        self, method: Any, request: Any, *, timeout: float
    ) -> AsyncGenerator[LogLine, None]:
        self.opened += 1
        seconds, error = next(self._ends)
        await asyncio.sleep(seconds)
        if error is not None:
            raise error
        yield LogLine(sequence=1, message="the only one")

    async def read(self) -> list[str]:
        return [line.message async for line in read_log(cast(Calls, self), "j", 0, follow=True)]


@pytest.fixture(autouse=True)
def short_life(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logs, "LIVED_SECONDS", 0.1)


@pytest.mark.parametrize("error", [LOST, DeadlineExceeded("an hour is over")])
@pytest.mark.parametrize("patience", [0.0, 0.15])
async def test_a_quiet_log_is_followed_over_any_number_of_streams_that_lived(
    error: JobmeshError, patience: float
) -> None:
    streams = Streams(*[(0.12, error)] * 5, (0, None), patience=patience)
    assert await streams.read() == ["the only one"]


async def test_streams_that_die_at_once_are_no_sign_of_life() -> None:
    streams = Streams((0.12, LOST), *[(0, LOST)] * 100, patience=0.15)
    with pytest.raises(Unavailable):
        await streams.read()
    assert streams.opened < 10


async def test_without_patience_a_stream_that_dies_at_once_is_the_last() -> None:
    streams = Streams((0, LOST), patience=0)
    with pytest.raises(Unavailable):
        await streams.read()
