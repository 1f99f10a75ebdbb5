"""The processes of a :mod:`~jobmesh.server.fork_server`, as seen by whoever wants them."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Sequence
from multiprocessing.connection import Connection

from jobmesh.server.fork_server import NUMBER_BYTES, from_bytes, receive_exactly, to_bytes

ANSWER_SECONDS = 60.0
END_SECONDS = 2.0
LOST = 256
"""In place of the exit code of a process whose fork server has died: nobody knows it."""


class ForkServer:
    """Started when it is needed first, and again after its death. Of any thread.

    - ``module``: run as ``python -m module FD``; calls :func:`~jobmesh.server.fork_server.serve`.
    """

    def __init__(self, module: str) -> None:
        self._module = module
        self._lock = threading.Lock()
        self._closed = False
        self._process: subprocess.Popen[bytes] | None = None
        self._control: socket.socket | None = None

    def prepare(self) -> None:
        """Start it already: what is forked first does not wait for all that it imports."""
        with self._lock:
            if self._control is None and not self._closed:
                self._start()

    def fork(self, payload: bytes, fds: Sequence[int]) -> Forked:
        """A process that was given this, and copies of these descriptors; it leads a group.

        :raises OSError: there is none.
        """
        reader, writer = os.pipe()
        try:
            with self._lock:
                pid = self._ask(payload, (writer, *fds))
        except BaseException:
            os.close(reader)
            raise
        finally:
            os.close(writer)
        return Forked(pid, reader)

    def close(self) -> None:
        """Let it end, for good. What it has forked goes on, unless it asked to die with it."""
        with self._lock:
            self._closed = True
            self._end()

    def _ask(self, payload: bytes, fds: Sequence[int]) -> int:
        if self._closed:
            raise ChildProcessError(f"{self._module} was closed")
        try:
            answer = self._exchange(payload, fds)
        except OSError:  # it was killed, say: once more, with a new one
            answer = self._exchange(payload, fds)
        if answer <= 0:
            raise OSError(-answer, os.strerror(-answer))
        return answer

    def _exchange(self, payload: bytes, fds: Sequence[int]) -> int:
        if self._control is None:
            self._start()
        assert self._control is not None
        try:
            socket.send_fds(self._control, [to_bytes(len(payload))], fds)
            self._control.sendall(payload)
            return from_bytes(receive_exactly(self._control, NUMBER_BYTES))
        except BaseException as error:
            self._end()  # an answer that comes yet would be taken for that of the next one
            if isinstance(error, OSError | EOFError):
                raise ChildProcessError(f"{self._module} forks nothing: {error!r}") from error
            raise

    def _start(self) -> None:
        ours, theirs = socket.socketpair()
        ours.settimeout(ANSWER_SECONDS)
        self._control = ours
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-m", self._module, str(theirs.fileno())],
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                start_new_session=True,  # a signal from a terminal is not for it
            )

    def _end(self) -> None:
        if self._control is not None:
            self._control.close()
            self._control = None
        if self._process is not None:
            try:
                self._process.wait(END_SECONDS)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
            self._process = None


class Forked:
    """A process that is no child of ours. Of any thread."""

    def __init__(self, pid: int, status: int) -> None:
        self.pid = pid
        self._told = Connection(status, writable=False)  # open as long as somebody may look
        self._lock = threading.Lock()
        self._code: int | None = None

    def poll(self) -> int | None:
        """Its exit code, negative for a signal; None while it runs."""
        with self._lock:
            if self._code is None and self._told.poll():
                self._code = self._read()
            return self._code

    def wait(self, timeout: float | None = None) -> int:
        """Wait until it has ended; its exit code.

        :raises TimeoutError: it has not in so many seconds.
        """
        if self.poll() is None and not self._told.poll(timeout):
            raise TimeoutError
        code = self.poll()
        assert code is not None
        return code

    def kill(self) -> None:
        """End it at once, and what it has started."""
        with self._lock:
            if self._code is None and not self._told.poll():  # else its number may be another's
                self._kill()

    def fileno(self) -> int:
        """Can be read once it has ended; only to wait for that."""
        return self._told.fileno()

    def _read(self) -> int:
        told = os.read(self._told.fileno(), NUMBER_BYTES)
        if told:
            return from_bytes(told)
        self._kill()
        return LOST

    def _kill(self) -> None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, signal.SIGKILL)
