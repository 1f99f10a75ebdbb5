"""A process that runs handlers, as its runner sees it."""

from __future__ import annotations

import os
import queue
import signal
import socket
import tempfile
import threading
from collections.abc import Sequence
from contextlib import suppress
from multiprocessing.connection import Connection
from typing import IO

import msgspec

from jobmesh.server.forked import LOST, ForkServer
from jobmesh_runner import worker_messages as m
from jobmesh_runner.attempt import Stop

READY_SECONDS = 60.0
END_SECONDS = 2.0
LOOK_SECONDS = 0.5
"""Between looks whether it still lives: something that it started may keep its pipe open."""
FAULT_BYTES = 64 << 10


class ProcessDied(Exception):
    """The process has ended by itself, or was ended; ``faults`` is what its last words were.

    ``is_known``: how it ended. It is not if the process that it was forked from was killed.
    """

    def __init__(self, text: str, faults: str = "", *, is_known: bool = True) -> None:
        self.faults = faults
        self.is_known = is_known
        super().__init__(text)


class WorkerProcess:
    """One process. One thread at a time, its minder, may :meth:`receive`; all may do the rest.

    A thread of its own writes, so that the minder always reads: two that both wait for the other to
    read would wait for ever.
    """

    def __init__(self, forks: ForkServer, apps: Sequence[str]) -> None:
        self._socket, theirs = socket.socketpair()
        self._faults: IO[bytes] = tempfile.TemporaryFile(prefix="jobmesh-faults-")  # noqa: SIM115
        with theirs:
            self._process = forks.fork(
                msgspec.msgpack.encode(apps), (theirs.fileno(), self._faults.fileno())
            )
        self._connection = Connection(os.dup(self._socket.fileno()))
        self._posted: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        self._writer = threading.Thread(target=self._write, name="worker-writer", daemon=True)
        self._writer.start()
        self._closed = False
        self.run = 0

    @property
    def pid(self) -> int:
        """The process."""
        return self._process.pid

    def post(self, message: m.ToWorker) -> None:
        """Have it told soon, in order. Never blocks."""
        self._posted.put(m.encode(message))

    def _write(self) -> None:
        with suppress(OSError):  # it has died, as its minder finds out
            while (data := self._posted.get()) is not None:
                self._connection.send_bytes(data)

    def stop(self, stop: Stop) -> None:
        """Tell the handler to stop."""
        self.post(m.StopHandler(self.run, stop.kind.name, stop.detail))

    def kill(self) -> None:
        """End it at once, and what it has started."""
        self._process.kill()

    def is_alive(self) -> bool:
        """Whether it runs."""
        return self._process.poll() is None

    def receive(self, timeout: float | None = None) -> m.FromWorker:
        """What it says next.

        :raises ProcessDied: it says nothing more.
        :raises TimeoutError: nor did it in so many seconds, in steps of half a one.
        """
        waited = 0.0
        while True:
            try:
                if self._connection.poll(LOOK_SECONDS):
                    return m.decode_from_worker(self._connection.recv_bytes(m.MOST_BYTES))
            except (EOFError, OSError, msgspec.MsgspecError):
                raise self._death() from None
            if not self.is_alive():
                raise self._death()
            waited += LOOK_SECONDS
            if timeout is not None and waited >= timeout:
                raise TimeoutError

    def _death(self) -> ProcessDied:
        try:
            code = self._process.wait(END_SECONDS)
        except TimeoutError:
            self.kill()
            code = self._end()
        return ProcessDied(describe(code), self._last_words(), is_known=code != LOST)

    def _end(self) -> int:
        """The exit code of a process that was killed."""
        try:
            return self._process.wait(END_SECONDS)
        except TimeoutError:  # whoever tells of it does not
            return LOST

    def _last_words(self) -> str:
        """What the interpreter wrote of a fatal signal: where its threads were."""
        self._faults.seek(0)
        return self._faults.read(FAULT_BYTES).decode("utf-8", "replace")

    def hang_up(self) -> None:
        """Let it end, which it does once it hears of it."""
        with suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """Let it end, or end it. Not while somebody receives; may be called again."""
        if self._closed:
            return
        self._closed = True
        self.hang_up()
        try:
            self._process.wait(END_SECONDS)
        except TimeoutError:
            self.kill()
            self._end()
        self._posted.put(None)
        self._writer.join()
        self._connection.close()
        self._socket.close()
        self._faults.close()


def describe(code: int) -> str:
    """How a process ended, for the author of the handler."""
    if code == LOST:
        return "the handler's process was lost with the one that it was forked from"
    if code >= 0:
        return f"the handler's process ended with exit code {code}"
    try:
        name = signal.Signals(-code).name
    except ValueError:
        name = f"signal {-code}"
    hint = " (it may have used too much memory)" if -code == signal.SIGKILL else ""
    return f"the handler's process was ended by {name}{hint}"
