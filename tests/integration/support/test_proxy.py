from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from tests.support.proxy import TcpProxy
from tests.support.wait import until


@pytest.fixture
async def proxy() -> AsyncIterator[TcpProxy]:
    """Before a server that sends everything back."""

    async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while chunk := await reader.read(100):
                writer.write(chunk)
                await writer.drain()
        except ConnectionError:
            pass
        finally:
            writer.close()

    server = await asyncio.start_server(echo, "127.0.0.1", 0)
    async with server, TcpProxy("127.0.0.1", server.sockets[0].getsockname()[1]) as link:
        yield link


class Client:
    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    async def echo(self, data: bytes) -> bytes:
        self.writer.write(data)
        return await self.reader.read(100)


@pytest.fixture
async def client(proxy: TcpProxy) -> AsyncIterator[Client]:
    reader, writer = await asyncio.open_connection("127.0.0.1", proxy.port)
    yield Client(reader, writer)
    writer.close()
    await asyncio.gather(writer.wait_closed(), return_exceptions=True)


async def test_it_passes_both_ways(proxy: TcpProxy, client: Client) -> None:
    assert await client.echo(b"ping") == b"ping"
    assert proxy.links == 1
    client.writer.write_eof()
    assert await client.reader.read() == b""
    await until(lambda: proxy.links == 0)


async def test_a_cut_resets_and_refuses_until_restored(proxy: TcpProxy, client: Client) -> None:
    assert await client.echo(b"a") == b"a"
    proxy.cut()
    with pytest.raises(ConnectionError):
        await client.echo(b"b")
    reader, writer = await asyncio.open_connection("127.0.0.1", proxy.port)
    with pytest.raises(ConnectionError):
        await Client(reader, writer).echo(b"c")
    writer.close()
    proxy.restore()
    reader, writer = await asyncio.open_connection("127.0.0.1", proxy.port)
    assert await Client(reader, writer).echo(b"d") == b"d"
    writer.close()
    await writer.wait_closed()


async def test_a_stall_holds_back_and_loses_nothing(proxy: TcpProxy, client: Client) -> None:
    assert await client.echo(b"a") == b"a"
    proxy.stall()
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(client.echo(b"b"), 0.1)
    proxy.restore()
    assert await asyncio.wait_for(client.reader.read(100), 5) == b"b"
