from __future__ import annotations

import errno
import io
import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from jobmesh.dev.follow import MOST_SAID, LogFollower
from jobmesh.dev.outlet import Outlet
from tests.support.wait import until

WARNING = json.dumps({"level": "WARNING", "logger": "jobmesh.x", "message": "not ready"}) + "\n"


def append(path: Path, text: str) -> None:
    with path.open("a") as file:
        file.write(text)


class Screen:
    """What a follower of the log `one` prints to a pipe."""

    def __init__(self, one: Path, encoding: str = "utf-8") -> None:
        self.reading, self.writing = os.pipe()
        os.set_blocking(self.reading, False)
        self.gone: list[bool] = []
        self.follower = LogFollower(
            {"one": one}, Outlet(self.writing, encoding), False, lambda: self.gone.append(True)
        )
        self._read = b""

    def fill(self) -> None:
        """Leave no room."""
        os.set_blocking(self.writing, False)
        try:
            while True:
                os.write(self.writing, b"x" * 65_536)
        except BlockingIOError:
            os.set_blocking(self.writing, True)

    def text(self) -> str:
        """All that was printed."""
        try:
            while new := os.read(self.reading, 65_536):
                self._read += new
        except BlockingIOError:
            pass
        return self._read.decode()

    def leave(self) -> None:
        """Read no more."""
        if self.reading >= 0:
            os.close(self.reading)
            self.reading = -1

    def close(self) -> None:
        self.leave()  # and let go of one that waits for it
        self.follower.stop()
        os.close(self.writing)


@pytest.fixture
def one(tmp_path: Path) -> Path:
    return tmp_path / "one.log"


@pytest.fixture
def screens(one: Path) -> Iterator[Callable[..., Screen]]:
    made: list[Screen] = []

    def make(encoding: str = "utf-8") -> Screen:
        made.append(Screen(one, encoding))
        return made[-1]

    yield make
    for screen in made:
        screen.close()


async def test_the_follower_shows_what_is_left_at_the_stop(tmp_path: Path) -> None:
    one, two = tmp_path / "one.log", tmp_path / "two.log"
    output = io.StringIO()
    follower = LogFollower({"one": one, "two": two}, output, colour=False)
    follower.start()
    append(one, "a\n")
    await until(lambda: "one | a\n" in output.getvalue(), describe=output.getvalue)
    append(two, "".join(f"{n}\n" for n in range(20_000)))
    follower.stop()
    assert output.getvalue().endswith("two | 19999\n")


async def test_what_is_said_comes_after_what_was_logged_before(
    one: Path, screens: Callable[..., Screen]
) -> None:
    screen = screens()
    append(one, "a\n")
    screen.follower.say("said")
    screen.follower.start()
    await until(lambda: screen.text() == "one | a\nsaid\n", describe=screen.text)


async def test_nobody_waits_for_a_reader_that_does_not_read(
    screens: Callable[..., Screen],
) -> None:
    screen = screens()
    screen.fill()
    screen.follower.start()
    for number in range(3 * MOST_SAID):  # what is not taken is bounded, too
        screen.follower.say(f"number {number}")
    screen.follower.stop(timeout=0.01)
    await until(lambda: f"number {3 * MOST_SAID - 1}\n" in screen.text())
    assert not screen.gone


async def test_a_reader_that_has_gone_is_told_once(
    one: Path, screens: Callable[..., Screen]
) -> None:
    screen = screens()
    screen.follower.start()
    screen.leave()
    append(one, "a\n")
    await until(lambda: screen.gone)
    screen.follower.say("to nobody")
    screen.follower.stop()
    assert screen.gone == [True]


async def test_what_the_terminal_cannot_encode_is_shown_as_a_number(
    one: Path, screens: Callable[..., Screen]
) -> None:
    screen = screens("latin-1")
    screen.follower.start()
    screen.follower.say("starting …")
    append(one, "\N{GRINNING FACE}\n" + json.dumps({"message": "half: \ud83d"}) + "\n")
    await until(lambda: "half" in screen.text(), describe=screen.text)
    assert screen.text().count("\n") == 3
    for shown in ("starting \\u2026", "\\U0001f600", "half: \\ud83d"):
        assert shown in screen.text()


class FullDisk(io.StringIO):
    def __init__(self) -> None:
        super().__init__()
        self.refusals = 2

    def write(self, text: str) -> int:
        if self.refusals:
            self.refusals -= 1
            raise OSError(errno.ENOSPC, "No space left on device")
        return super().write(text)


async def test_it_goes_on_once_there_is_space_again(one: Path) -> None:
    disk = FullDisk()
    follower = LogFollower({"one": one}, disk, colour=False)
    follower.start()
    while disk.refusals:
        before = disk.refusals
        append(one, "lost\n")
        await until(lambda before=before: disk.refusals < before)  # type: ignore[misc]
    append(one, "shown\n")
    await until(lambda: disk.getvalue() == "one | shown\n", describe=disk.getvalue)
    follower.stop()


async def test_what_is_warned_of_while_it_starts_is_not_shown_once_it_serves(
    one: Path, screens: Callable[..., Screen]
) -> None:
    screen = screens()
    screen.follower.start()
    append(one, WARNING + "usual\n")
    await until(lambda: "usual" in screen.text())
    append(one, WARNING)
    screen.follower.say("it serves", all_is_well=True)
    await until(lambda: "it serves" in screen.text())
    assert screen.text() == "one | usual\nit serves\n"
    append(one, WARNING)
    await until(lambda: screen.text().endswith("it serves\none | WARNING not ready\n"))


async def test_what_was_warned_of_is_shown_if_it_never_serves(
    one: Path, screens: Callable[..., Screen]
) -> None:
    screen = screens()
    screen.follower.start()
    append(one, WARNING)
    screen.follower.stop()
    assert screen.text() == "one | WARNING not ready\n"
