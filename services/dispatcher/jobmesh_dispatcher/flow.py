"""How much one stream may have under way: what a runner sends is read as fast as it is written."""

from __future__ import annotations

import asyncio

MOST_BYTES = 96 << 20


class Flow:
    """Bytes that were read and are not dealt with yet.

    A runner keeps less than that unanswered, so that only one that floods the dispatcher ever has
    to wait: it is read no further, and gRPC makes it stop.
    """

    def __init__(self, most_bytes: int = MOST_BYTES) -> None:
        self._most = most_bytes
        self._bytes = 0
        self._room = asyncio.Event()
        self._room.set()

    def until(self, done: asyncio.Future[object] | asyncio.Task[None], size: int) -> None:
        """So many bytes are under way until that is done."""
        self._bytes += size
        if self._bytes >= self._most:
            self._room.clear()
        done.add_done_callback(lambda _: self._release(size))

    async def room(self) -> None:
        """Wait until there is room for more."""
        await self._room.wait()

    def _release(self, size: int) -> None:
        self._bytes -= size
        if self._bytes < self._most:
            self._room.set()
