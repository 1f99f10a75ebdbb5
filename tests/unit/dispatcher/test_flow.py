"""A stream is read no further while too much of it is under way."""

from __future__ import annotations

import asyncio

from jobmesh_dispatcher.flow import Flow


async def test_a_stream_waits_for_room_and_goes_on_once_there_is() -> None:
    flow, loop = Flow(100), asyncio.get_running_loop()
    first: asyncio.Future[object] = loop.create_future()
    second: asyncio.Future[object] = loop.create_future()
    flow.until(first, 60)
    await asyncio.wait_for(flow.room(), 1)
    flow.until(second, 60)
    waiting = asyncio.ensure_future(flow.room())
    await asyncio.sleep(0)
    assert not waiting.done()
    first.set_result(None)
    await asyncio.wait_for(waiting, 1)
    second.cancel()
    await asyncio.sleep(0)
    flow.until(loop.create_future(), 99)
    await asyncio.wait_for(flow.room(), 1)  # nothing of the others is left
