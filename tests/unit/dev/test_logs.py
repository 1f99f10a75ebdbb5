from __future__ import annotations

import asyncio
import logging
from pathlib import Path

import pytest

from jobmesh.dev.errors import tail
from jobmesh.dev.follow import LONGEST_LINE, LogFile
from jobmesh.dev.ownlog import logging_to
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


def test_a_log_that_cannot_be_copied_is_emptied_all_the_same(tmp_path: Path) -> None:
    path, copy = tmp_path / "x.log", tmp_path / "x.log.1"
    append(path, "x" * 100)
    copy.symlink_to("/dev/full")  # no space left
    assert rotate(path, 50)
    assert path.read_text() == ""
    assert not copy.is_symlink()


async def test_a_log_that_cannot_be_rotated_is_no_end_for_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("jobmesh.dev.rotation.INTERVAL", 0.01)
    broken, path = tmp_path / "a directory", tmp_path / "x.log"
    broken.mkdir()
    task = asyncio.create_task(keep_small([broken, path], largest=1))
    try:
        for _ in range(2):
            append(path, "x" * 100)
            await until(lambda: path.stat().st_size == 0 or task.done())
            assert not task.done()
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
    assert f"{broken} is not rotated" in caplog.text


async def test_a_log_that_cannot_be_read_has_no_new_lines(tmp_path: Path) -> None:
    path = tmp_path / "x.log"
    log = LogFile(path)
    path.mkdir()
    assert log.new_lines() == []
    path.rmdir()
    append(path, "there\n")
    assert log.new_lines() == ["there"]


def test_all_that_this_process_logs_goes_to_its_log(tmp_path: Path) -> None:
    path = tmp_path / "dev.log"
    with logging_to(path):
        logging.getLogger("jobmesh.dev").info("caf\N{LATIN SMALL LETTER E WITH ACUTE}")
        logging.getLogger("asyncio").warning("a surprise")
    logging.getLogger("asyncio").warning("another")
    first, second = path.read_text(encoding="utf-8").splitlines()
    assert first.endswith(" INFO caf\N{LATIN SMALL LETTER E WITH ACUTE}")
    assert second.endswith(" WARNING a surprise")


def test_a_log_that_takes_nothing_is_no_error_to_print(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "dev.log"
    path.symlink_to("/dev/full")
    with logging_to(path):
        logging.getLogger("jobmesh.dev").warning("lost")
    assert capsys.readouterr().err == ""


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
