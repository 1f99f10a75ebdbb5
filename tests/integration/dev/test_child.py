"""Programs as children: they end as asked, and never outlive us."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from jobmesh.dev.child import Child, Program, describe_exit
from jobmesh.dev.errors import ProgramFailed
from tests.support.leaks import command_of
from tests.support.wait import until

# Starts a program with `{signal}` for its orphans, says its process id, and waits to be killed.
PARENT = """
import asyncio, signal, sys
from pathlib import Path
from jobmesh.dev.child import Child, Program
async def main():
    code = sys.argv[2]
    child = await Child.start(Program(name="x", command=(sys.executable, "-c", code),
        log=Path(sys.argv[1]), orphan_signal=signal.{signal}))
    print(child.pid, flush=True)
    await child.wait()
asyncio.run(main())
"""
# Says when it is up, and what it was told.
PATIENT = """
import signal, time
def told(number, frame):
    print("told", number, flush=True)
    raise SystemExit(7)
signal.signal(signal.SIGTERM, told)
print("up", flush=True)
while True:
    time.sleep(60)
"""
STUBBORN = PATIENT.replace("raise SystemExit(7)", "pass")


def program(tmp_path: Path, code: str, **more: object) -> Program:
    command = (sys.executable, "-c", code)
    return Program(name="x", command=command, log=tmp_path / "x.log", **more)  # type: ignore[arg-type]


async def says(tmp_path: Path, words: str) -> None:
    log = tmp_path / "x.log"
    await until(lambda: words in log.read_text(), describe=lambda: f"{words!r} in its log")


async def test_it_ends_as_asked(tmp_path: Path) -> None:
    child = await Child.start(program(tmp_path, PATIENT))
    await says(tmp_path, "up")
    assert child.exit_code is None
    assert await child.stop((signal.SIGTERM, 10)) == 7
    assert f"told {int(signal.SIGTERM)}" in (tmp_path / "x.log").read_text()
    assert await child.stop((signal.SIGTERM, 10)) == 7


async def test_one_that_does_not_listen_is_killed(tmp_path: Path) -> None:
    child = await Child.start(program(tmp_path, STUBBORN))
    await says(tmp_path, "up")
    assert await child.stop((signal.SIGTERM, 0.2)) == -signal.SIGKILL


async def test_a_signal_leaves_its_exit_code_to_who_waits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    child = await Child.start(program(tmp_path, PATIENT))
    await says(tmp_path, "up")
    with monkeypatch.context() as patch:
        patch.setattr(subprocess.Popen, "poll", lambda _: pytest.fail("it was asked for"))
        child.send(signal.SIGTERM)
        assert await asyncio.wait_for(child.wait(), 10) == 7
        child.send(signal.SIGTERM)
    await child.stop()


async def test_what_it_started_is_killed_with_it(tmp_path: Path) -> None:
    code = "import subprocess, sys, time; print(subprocess.Popen(['sleep', '60']).pid, flush=True)"
    child = await Child.start(program(tmp_path, f"{code}; time.sleep(60)"))
    grandchild = await until(lambda: int((tmp_path / "x.log").read_text() or 0))
    child.kill()
    await child.wait()
    await until(lambda: command_of(grandchild) in ("gone", "a zombie"))


async def test_a_failure_shows_its_log(tmp_path: Path) -> None:
    child = await Child.start(program(tmp_path, "import sys; sys.exit('no such thing')"))
    await child.wait()
    with pytest.raises(ProgramFailed, match=r"x ended with code 1; .*\nno such thing"):
        child.require_running()


async def test_a_program_that_does_not_exist_says_so(tmp_path: Path) -> None:
    child = await Child.start(Program(name="x", command=("/no/where",), log=tmp_path / "x.log"))
    await child.wait()
    with pytest.raises(ProgramFailed, match="No such file or directory"):
        child.require_running()


@pytest.mark.parametrize(("name", "words"), [("SIGTERM", "told 15"), ("SIGKILL", "up")])
async def test_it_hears_that_its_parent_was_killed(tmp_path: Path, name: str, words: str) -> None:
    parent = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", PARENT.format(signal=name), str(tmp_path / "x.log"), PATIENT),
        stdout=asyncio.subprocess.PIPE,
    )
    try:
        assert parent.stdout is not None
        orphan = int(await asyncio.wait_for(parent.stdout.readline(), 20))
        await says(tmp_path, "up")
        parent.kill()
        await until(lambda: command_of(orphan) in ("gone", "a zombie"))
        await says(tmp_path, words)
    finally:
        if parent.returncode is None:
            parent.kill()
        await parent.communicate()


async def test_it_has_a_session_of_its_own(tmp_path: Path) -> None:
    child = await Child.start(program(tmp_path, PATIENT))
    assert os.getsid(child.pid) == child.pid  # Ctrl-C on our terminal is not for it
    await child.stop()


def test_exits_read_well() -> None:
    assert describe_exit(3) == "code 3"
    assert describe_exit(-9) == "SIGKILL"
    assert describe_exit(-64) == "SIGRTMAX"
    assert describe_exit(-63) == "signal 63"
