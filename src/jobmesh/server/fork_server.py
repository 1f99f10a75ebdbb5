"""A process that others are forked from, so that a start costs milliseconds in place of imports.

It has one thread, no loop and no channel, so that a fork copies no lock that somebody holds and no
connection that two would then share. What it forks has imported what it has, and nothing of whoever
asked for it: neither its memory nor its descriptors but those that came along.

The protocol, over a stream socket whose other end is :class:`jobmesh.server.forked.ForkServer`: a
length of 4 bytes comes with descriptors, the first of them to be told the end on; as many bytes
follow. The answer is the process id in 4 bytes, or a negative errno. How a process has ended is
written to its own descriptor, as 4 bytes. When the other end is gone, the server ends, and what it
has forked is left to find out by itself.

The technique is that of `multiprocessing.forkserver`, which may not be used from several threads,
and runs the main module of its parent again in each process.
"""

from __future__ import annotations

import contextlib
import errno
import gc
import os
import select
import signal
import socket
import sys
import traceback
from collections.abc import Callable, Iterable
from typing import NoReturn

NUMBER_BYTES = 4
MOST_FDS = 8
SIGNALS = (signal.SIGCHLD, signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

Become = Callable[[bytes, list[int]], object]


class _Server:
    def __init__(self, control: socket.socket, become: Become) -> None:
        self._control = control
        self._become = become
        self._statuses: dict[int, int] = {}  # by process, where its end is told
        self._wake, self._waker = os.pipe()

    def run(self) -> None:
        """Fork until nobody asks any more."""
        os.set_blocking(self._wake, False)
        os.set_blocking(self._waker, False)
        # None is ignored: a SIGCHLD has to wake us. The others are for whoever asked for processes,
        # also if somebody signals all that belongs to it.
        for number in SIGNALS:
            signal.signal(number, lambda *_: None)
        signal.set_wakeup_fd(self._waker, warn_on_full_buffer=False)
        control = self._control.fileno()
        while True:
            ready, _, _ = select.select([control, self._wake], [], [])
            if self._wake in ready:
                os.read(self._wake, 4096)
                self._reap()
            if control in ready and not self._serve_one():
                return

    def _reap(self) -> None:
        while self._statuses:
            pid, status = os.waitpid(-1, os.WNOHANG)
            if pid == 0:
                return
            told = self._statuses.pop(pid)
            code = os.waitstatus_to_exitcode(status)
            with contextlib.suppress(BrokenPipeError):  # nobody asks any more
                os.write(told, to_bytes(code))
            os.close(told)

    def _serve_one(self) -> bool:
        """Whether somebody may ask again."""
        try:
            return self._answer_one()
        except (ConnectionError, EOFError):  # killed before it had asked, or had its answer
            return False

    def _answer_one(self) -> bool:
        head, fds, flags, _ = socket.recv_fds(self._control, NUMBER_BYTES, MOST_FDS)
        if not head:
            return False
        for fd in fds:
            os.set_inheritable(fd, False)
        payload = receive_exactly(self._control, from_bytes(head))
        if flags & socket.MSG_CTRUNC:  # there is no room for them
            _close(fds)
            answer = -errno.EMFILE
        else:
            answer = self._fork(payload, *fds)
        self._control.sendall(to_bytes(answer))
        return True

    def _fork(self, payload: bytes, told: int, *given: int) -> int:
        """The process, or what is in the way."""
        try:
            pid = _fork_held_back()
        except OSError as error:
            _close((told, *given))
            return -(error.errno or errno.EAGAIN)
        if pid == 0:
            os.close(told)  # that is for us to tell, and for its absence to tell if we are killed
            self._be(payload, list(given))
        _close(given)
        self._statuses[pid] = told
        _lead_group(pid)
        return pid

    def _be(self, payload: bytes, given: list[int]) -> NoReturn:
        code = 1
        try:
            self._leave_server()
            self._become(payload, given)
            code = 0
        except SystemExit as leaving:
            code = _exit_code(leaving)
        except BaseException:
            traceback.print_exc()
        finally:
            for stream in (sys.stdout, sys.stderr):
                with contextlib.suppress(Exception):  # a full disk, a reader that has gone
                    stream.flush()
            os._exit(code)

    def _leave_server(self) -> None:
        _lead_group(0)
        signal.set_wakeup_fd(-1)
        for number in SIGNALS:
            signal.signal(number, signal.SIG_DFL)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, SIGNALS)
        self._control.close()
        _close((self._wake, self._waker, *self._statuses.values()))


def _exit_code(leaving: SystemExit) -> int:
    """As the interpreter takes it: what is no number is said."""
    if leaving.code is None or isinstance(leaving.code, int):
        return leaving.code or 0
    with contextlib.suppress(Exception):
        sys.stderr.write(f"{leaving.code}\n")
    return 1


def _fork_held_back() -> int:
    """Fork; signals are held back in the child until it takes them as it should.

    One that was sent to it right away would else be taken as the server takes it: not at all.
    """
    before = signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)
    pid = None
    try:
        pid = os.fork()
        return pid
    finally:
        if pid != 0:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)


def serve(control: int, become: Become) -> None:
    """Fork processes that ``become(payload, descriptors)``, until the other end is closed.

    The descriptors are theirs to close. An exit code is as that of a program: 0 unless it raised.
    """
    gc.collect()
    gc.freeze()  # what all share would be copied as soon as one collects
    with socket.socket(fileno=control) as connection:
        connection.set_inheritable(False)
        _Server(connection, become).run()


def receive_exactly(connection: socket.socket, size: int) -> bytes:
    """So many bytes.

    :raises EOFError: there are fewer.
    """
    received = bytearray()
    while len(received) < size:
        part = connection.recv(size - len(received))
        if not part:
            raise EOFError
        received += part
    return bytes(received)


def to_bytes(number: int) -> bytes:
    """A number as it is sent."""
    return number.to_bytes(NUMBER_BYTES, "big", signed=True)


def from_bytes(sent: bytes) -> int:
    """Such a number."""
    return int.from_bytes(sent, "big", signed=True)


def _close(fds: Iterable[int]) -> None:
    for fd in fds:
        os.close(fd)


def _lead_group(pid: int) -> None:
    """Done by both, as a signal to the group may come at once."""
    with contextlib.suppress(ProcessLookupError, PermissionError):  # ended, or another program now
        os.setpgid(pid, 0)
