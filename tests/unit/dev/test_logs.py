from __future__ import annotations

import asyncio
import io
from pathlib import Path

from jobmesh.dev.errors import tail
from jobmesh.dev.follow import LONGEST_LINE, LogFile, LogFollower
from jobmesh.dev.rotation import keep_small, rotate
from tests.support.wait import until


def append(path: Path, text: str) -> None:
    with path.open("a") as file:
        file.write(text)


def test_only_new_whole_lines_are_read(tmp_path: Path) -> None:
    path = tmp_path / "x.log"
    append(path, "before\n")
    log = LogFile(path)
    assert log.new_lines() == []
    append(path, "one\ntw")
    assert log.new_lines() == ["one"]
    append(path, "o\n")
    assert log.new_lines() == ["two"]


def test_a_log_may_come_later_and_be_rotated(tmp_path: Path) -> None:
    path = tmp_path / "x.log"
    log = LogFile(path)
    assert log.new_lines() == []
    append(path, "first and long\n")
    assert log.new_lines() == ["first and long"]
    assert rotate(path, 3)
    append(path, "next\n")
    assert log.new_lines() == ["next"]
    assert (tmp_path / "x.log.1").read_text() == "first and long\n"


def test_a_line_without_an_end_is_not_kept_for_ever(tmp_path: Path) -> None:
    path = tmp_path / "x.log"
    log = LogFile(path)
    append(path, "x" * 3 * LONGEST_LINE)
    assert sum(len(line) for _ in range(3) for line in log.new_lines()) > LONGEST_LINE


def test_a_small_log_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "x.log"
    append(path, "abc")
    assert not rotate(path, 3)
    assert not rotate(tmp_path / "none.log", 3)
    assert path.read_text() == "abc"


async def test_a_writer_goes_on_in_a_rotated_log(tmp_path: Path) -> None:
    path = tmp_path / "x.log"
    with path.open("a") as writer:
        writer.write("x" * 100)
        writer.flush()
        task = asyncio.create_task(keep_small([path], largest=50))
        await until(lambda: path.stat().st_size == 0)
        writer.write("after")
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert path.read_text() == "after"


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


def test_the_tail_is_whole_lines(tmp_path: Path) -> None:
    path = tmp_path / "x.log"
    assert tail(path) == "(no log: No such file or directory)"
    append(path, "")
    assert tail(path) == "(the log is empty)"
    append(path, "first\nsecond\nthird\n")
    assert tail(path, limit=16) == "second\nthird"
    assert tail(path) == "first\nsecond\nthird"
    assert tail(path, since=len("first\n")) == "second\nthird"
    assert tail(path, limit=8, since=len("first\n")) == "third"
    assert tail(path, since=path.stat().st_size) == "(the log is empty)"
