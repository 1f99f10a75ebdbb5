"""Free TCP ports that stay ours, though the programs that shall listen on them start later.

A port asked of the kernel (`bind` to 0) may be handed to anybody once it is closed again, a restart
later too. Ports below the ephemeral range are only ever taken on purpose. Of those we take blocks,
and hold the first port of a block open for as long as the block is used: two meshes on one machine
never share one, and the kernel forgets the claim when we die.
"""

from __future__ import annotations

import contextlib
import random
import socket
from pathlib import Path
from types import TracebackType
from typing import Self

from jobmesh.dev.errors import DevError

LOWEST = 12_000
BLOCK = 40
EPHEMERAL = Path("/proc/sys/net/ipv4/ip_local_port_range")
DEFAULT_EPHEMERAL_START = 32_768
HIGHEST = 60_000


class PortPool:
    """Hands out free ports of one host address; close it when the programs have ended."""

    def __init__(self, host: str = "127.0.0.1") -> None:
        self._host = host
        self._guards: list[socket.socket] = []
        self._free: list[int] = []

    def take(self) -> int:
        """A port nobody listens on.

        :raises DevError: if every block is taken.
        """
        while True:
            if not self._free:
                self._claim_block()
            port = self._free.pop(0)
            if is_free(self._host, port):
                return port

    def close(self) -> None:
        """Give up the blocks."""
        while self._guards:
            self._guards.pop().close()
        self._free.clear()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def _claim_block(self) -> None:
        starts = list(range(LOWEST, _ephemeral_start() - BLOCK, BLOCK))
        random.shuffle(starts)
        for start in starts:
            guard = _bound(self._host, start)
            if guard is not None:
                self._guards.append(guard)
                self._free = list(range(start + 1, start + BLOCK))
                return
        raise DevError(f"no free block of ports on {self._host}")


def is_free(host: str, port: int) -> bool:
    """Whether a server could listen there now. A listener with SO_REUSEPORT counts as taken."""
    bound = _bound(host, port)
    if bound is None:
        return False
    bound.close()
    return True


def _bound(host: str, port: int) -> socket.socket | None:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with contextlib.ExitStack() as stack:
        sock = stack.enter_context(socket.socket(family, socket.SOCK_STREAM))
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            sock.bind((host, port))
            sock.listen(1)
        except OSError:
            return None
        stack.pop_all()
        return sock


def _ephemeral_start() -> int:
    try:
        start = int(EPHEMERAL.read_text().split()[0])
    except (OSError, ValueError, IndexError):
        return DEFAULT_EPHEMERAL_START
    # A machine may be set up to have hardly any others: then those have to do.
    return start if start > 2 * LOWEST else HIGHEST
