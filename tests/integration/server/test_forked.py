"""Processes forked from a server: what they are given, how their end is known."""

from __future__ import annotations

import os
import resource
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from jobmesh.server.fork_server import to_bytes
from jobmesh.server.forked import LOST, Forked, ForkServer
from tests.support.wait import until

ROOM = 20.0


@pytest.fixture
def server() -> Iterator[ForkServer]:
    made = ForkServer("tests.support.offspring")
    yield made
    made.close()


def server_of(process: Forked) -> int:
    status = Path(f"/proc/{process.pid}/stat").read_text()
    return int(status.rpartition(")")[2].split()[1])


@pytest.mark.parametrize(
    ("word", "code"),
    [("return", 0), ("exit 3", 3), ("full", 3), ("raise", 1), ("signal", -signal.SIGSEGV)],
)
def test_how_it_ended_is_known(server: ForkServer, word: str, code: int) -> None:
    process = server.fork(word.encode(), [])
    assert process.wait(ROOM) == code
    assert process.poll() == process.wait() == code


def test_a_last_word_is_said(server: ForkServer, capfd: pytest.CaptureFixture[str]) -> None:
    assert server.fork(b"say why", []).wait(ROOM) == 1
    assert capfd.readouterr().err == "why\n"


def test_it_leads_a_group_and_has_what_it_was_given(server: ForkServer) -> None:
    reader, writer = os.pipe()
    process = server.fork(b"exit 0", [writer])
    os.close(writer)
    with os.fdopen(reader) as file:
        assert file.read() == f"{process.pid} exit 0"
    assert process.wait(ROOM) == 0


def test_it_runs_until_it_is_killed_and_others_do_not_notice(server: ForkServer) -> None:
    first, second = (server.fork(b"wait", []) for _ in range(2))
    with pytest.raises(TimeoutError):
        first.wait(0.05)
    assert first.poll() is None
    first.kill()
    assert first.wait(ROOM) == -signal.SIGKILL
    assert second.poll() is None
    second.kill()
    assert second.wait(ROOM) == -signal.SIGKILL
    first.kill()  # whose number that is now is not ours to know


def test_many_threads_fork_at_once(server: ForkServer) -> None:
    codes: list[int] = []

    def fork(code: int) -> None:
        codes.append(server.fork(f"exit {code}".encode(), []).wait(ROOM))

    threads = [threading.Thread(target=fork, args=(code,)) for code in range(40)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(ROOM)
    assert sorted(codes) == list(range(40))


def test_no_process_has_the_descriptors_of_another(
    server: ForkServer, capfd: pytest.CaptureFixture[str]
) -> None:
    others = [server.fork(b"wait", []) for _ in range(3)]
    assert server.fork(b"descriptors", []).wait(ROOM) == 0
    assert capfd.readouterr().out == "0, 1, 2, 3\n"  # the last one is that of the folder
    for other in others:
        other.kill()
        other.wait(ROOM)


def test_after_the_death_of_the_server_another_forks(server: ForkServer) -> None:
    orphan = server.fork(b"wait", [])
    os.kill(server_of(orphan), signal.SIGKILL)
    assert orphan.wait(ROOM) == LOST
    assert server.fork(b"exit 7", []).wait(ROOM) == 7


async def test_an_orphan_of_a_server_that_died_is_ended(server: ForkServer) -> None:
    orphan = server.fork(b"wait", [])
    os.kill(server_of(orphan), signal.SIGKILL)
    orphan.wait(ROOM)
    await until(lambda: not is_there(orphan.pid), ROOM)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_a_signal_to_all_is_not_for_the_server(server: ForkServer, number: int) -> None:
    process = server.fork(b"wait", [])
    os.kill(server_of(process), number)
    assert server.fork(b"exit 5", []).wait(ROOM) == 5
    assert process.poll() is None
    os.kill(process.pid, signal.SIGTERM)
    assert process.wait(ROOM) == -signal.SIGTERM


def test_a_signal_right_after_the_fork_is_not_taken_as_the_server_takes_it(
    server: ForkServer,
) -> None:
    for _ in range(30):
        process = server.fork(b"wait", [])
        os.kill(process.pid, signal.SIGTERM)
        assert process.wait(ROOM) == -signal.SIGTERM


def test_a_server_that_was_closed_forks_no_more(server: ForkServer) -> None:
    assert server.fork(b"exit 0", []).wait(ROOM) == 0
    server.close()
    with pytest.raises(OSError, match="was closed"):
        server.fork(b"exit 0", [])


def test_a_server_without_room_for_descriptors_says_so(server: ForkServer) -> None:
    process = server.fork(b"wait", [])
    limits = resource.prlimit(server_of(process), resource.RLIMIT_NOFILE)
    resource.prlimit(server_of(process), resource.RLIMIT_NOFILE, (8, limits[1]))
    with pytest.raises(OSError, match="Too many open files"):
        server.fork(b"exit 0", [process.fileno()] * 5)
    resource.prlimit(server_of(process), resource.RLIMIT_NOFILE, limits)
    assert server.fork(b"exit 0", []).wait(ROOM) == 0
    assert process.poll() is None
    process.kill()
    process.wait(ROOM)


def test_a_server_that_cannot_start_is_an_error() -> None:
    server = ForkServer("no.such.module")
    with pytest.raises(OSError, match=r"no\.such\.module"):
        server.fork(b"", [])
    server.close()


def is_there(pid: int) -> bool:
    try:
        return ") Z " not in Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False


@pytest.mark.parametrize("sent", [b"", to_bytes(4), to_bytes(4) + b"ret", to_bytes(6) + b"exit 0"])
def test_a_server_whose_asker_was_killed_ends_without_a_word(sent: bytes) -> None:
    ours, theirs = socket.socketpair()
    told, status = os.pipe()
    command = [sys.executable, "-m", "tests.support.offspring", str(theirs.fileno())]
    with subprocess.Popen(command, pass_fds=[theirs.fileno()], stderr=subprocess.PIPE) as process:
        theirs.close()
        process.send_signal(signal.SIGSTOP)
        with ours:
            if sent:
                socket.send_fds(ours, [sent], [status])
        process.send_signal(signal.SIGCONT)
        os.close(status)
        _, said = process.communicate(timeout=ROOM)
    os.close(told)
    assert (process.returncode, said) == (0, b"")
