"""A TCP proxy between a client and a server, whose links a test cuts or stalls."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from types import TracebackType
from typing import Self

CHUNK = 65_536
CONNECT_TIMEOUT = 5.0


class TcpProxy:
    """Forwards to `host:port` from a port of its own.

    `cut()` resets all links and refuses new ones, as a dead server does; `stall()` keeps them open
    and passes nothing, as a partition does; `restore()` ends both.
    """

    def __init__(self, host: str, port: int) -> None:
        self._target = (host, port)
        self._flowing = asyncio.Event()
        self._flowing.set()
        self._refusing = False
        self._links: dict[asyncio.Task[None], list[asyncio.StreamWriter]] = {}
        self._server: asyncio.Server | None = None
        self.port = 0
        self.accepted = 0

    @property
    def address(self) -> str:
        """Where clients connect, as `host:port`."""
        return f"127.0.0.1:{self.port}"

    @property
    def links(self) -> int:
        """How many are open now."""
        return len(self._links)

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", self.port)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        assert self._server is not None
        self._server.close()
        self.cut()  # also those that were accepted just now, and are not served yet
        await asyncio.gather(*self._links, return_exceptions=True)
        await self._server.wait_closed()

    def cut(self) -> None:
        """Reset every link, and every new one, until restored."""
        self._refusing = True
        self.drop()

    def drop(self) -> None:
        """Reset every link once; new ones are served."""
        for task, writers in list(self._links.items()):
            for writer in writers:
                _reset(writer)
            task.cancel()

    def stall(self) -> None:
        """Pass nothing any more, in either direction; nobody is told."""
        self._flowing.clear()

    def restore(self) -> None:
        """Serve again; what was held back by a stall is passed on."""
        self._refusing = False
        self._flowing.set()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.accepted += 1
        if self._refusing:
            _reset(writer)
            return
        task = asyncio.current_task()
        assert task is not None
        self._links[task] = [writer]
        try:
            await self._link(reader, writer, self._links[task])
        except asyncio.CancelledError:
            pass  # dropped: this task is ours alone, and ends here
        finally:
            for side in self._links.pop(task):
                side.close()
                with contextlib.suppress(OSError):
                    await side.wait_closed()

    async def _link(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        writers: list[asyncio.StreamWriter],
    ) -> None:
        try:
            async with asyncio.timeout(CONNECT_TIMEOUT):
                far_reader, far_writer = await asyncio.open_connection(*self._target)
        except OSError:
            _reset(writer)
            return
        writers.append(far_writer)
        with contextlib.suppress(ExceptionGroup):
            async with asyncio.TaskGroup() as both:
                both.create_task(self._pump(reader, far_writer))
                both.create_task(self._pump(far_reader, writer))

    async def _pump(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while chunk := await reader.read(CHUNK):
            await self._flowing.wait()
            writer.write(chunk)
            await writer.drain()
        await self._flowing.wait()
        if writer.can_write_eof():
            writer.write_eof()


def _reset(writer: asyncio.StreamWriter) -> None:
    """Close with a reset in place of an orderly end."""
    sock = writer.get_extra_info("socket")
    if sock is not None:
        linger = b"\x01\x00\x00\x00\x00\x00\x00\x00"  # on, 0 seconds
        with contextlib.suppress(OSError):
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
    writer.transport.abort()
