"""Waiting until the NATS server has all that was sent to it, though not for ever."""

from __future__ import annotations

import asyncio

from nats.aio.client import Client

# Longer than a connection lives whose pings are not answered.
GIVEN_UP_SECONDS = 30


class Flushes:
    """Flushes connections, in tasks that outlast whoever gives up waiting for them.

    The client (nats-py 2.16) keeps a flush that was cancelled among those that wait for an answer.
    The answer, when it comes late, fails at it, and with it the task that reads the connection:
    nothing comes in any more until unanswered pings end the connection, seconds later.
    """

    def __init__(self) -> None:
        self._under_way: set[asyncio.Task[None]] = set()

    async def flush(self, client: Client, seconds: float) -> None:
        """Return once the server has all that was sent on the connection so far.

        :raises TimeoutError: there was no answer within ``seconds``.
        :raises nats.errors.Error: the connection is closed.
        :raises OSError: the connection broke.
        """
        flush = asyncio.create_task(client.flush(GIVEN_UP_SECONDS), name="nats-flush")
        self._under_way.add(flush)
        flush.add_done_callback(self._over)
        done, _ = await asyncio.wait({flush}, timeout=seconds)
        if not done:
            raise TimeoutError(f"the server did not answer in {seconds:g} s")
        await flush

    async def stop(self) -> None:
        """Give up those under way; only when their connections are closed, and no answer comes."""
        for flush in self._under_way:
            flush.cancel()
        if self._under_way:
            await asyncio.wait(set(self._under_way))

    def _over(self, flush: asyncio.Task[None]) -> None:
        self._under_way.discard(flush)
        if not flush.cancelled():
            flush.exception()  # whoever waits for it is told; else nobody needs to know
