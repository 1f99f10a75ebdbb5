"""Flushes of a connection to NATS whose server is slow to answer."""

from __future__ import annotations

import asyncio
from urllib.parse import urlsplit

import nats
import pytest
from nats.aio.msg import Msg

from jobmesh_gateway.flushes import Flushes
from tests.support.proxy import TcpProxy
from tests.support.wait import until


async def test_a_server_that_answers_too_late_is_heard_all_the_same(nats_url: str) -> None:
    errors = list[Exception]()
    heard = list[bytes]()

    async def on_error(error: Exception) -> None:
        errors.append(error)

    async def hear(message: Msg) -> None:
        heard.append(message.data)

    flushes = Flushes()
    async with TcpProxy("127.0.0.1", urlsplit(nats_url).port or 0) as proxy:
        client = await nats.connect(f"nats://{proxy.address}", error_cb=on_error)
        await client.subscribe("late", cb=hear)
        await flushes.flush(client, 5)
        proxy.stall()
        with pytest.raises(TimeoutError):
            await flushes.flush(client, 0.1)
        proxy.restore()
        await flushes.flush(client, 5)
        await client.publish("late", b"said")
        await until(lambda: heard == [b"said"], timeout=5)
        assert errors == []
        await client.close()
    await flushes.stop()


async def test_what_is_under_way_ends_with_its_owner(nats_url: str) -> None:
    flushes = Flushes()
    async with TcpProxy("127.0.0.1", urlsplit(nats_url).port or 0) as proxy:
        client = await nats.connect(f"nats://{proxy.address}")
        before = asyncio.all_tasks()
        proxy.stall()
        with pytest.raises(TimeoutError):
            await flushes.flush(client, 0.1)
        await client.close()
        await flushes.stop()
        assert asyncio.all_tasks() <= before
