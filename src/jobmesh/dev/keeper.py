"""Keeps one process running: starts it, sees when it serves, starts it again when it ends."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Protocol

from jobmesh.dev.child import Child, describe_exit
from jobmesh.dev.errors import DevError, in_words

log = logging.getLogger("jobmesh.dev")

PROBE_INTERVAL = 0.05
FIRST_BACKOFF = 0.1
LONGEST_BACKOFF = 5.0
SETTLED_AFTER = 10.0  # seconds of serving after which the next end counts as the first


class Kept(Protocol):
    """A process that can be started again and again."""

    name: str

    @property
    def child(self) -> Child | None:
        """The process of its latest life."""

    async def start(self) -> None:
        """Start it anew."""

    async def serves(self) -> bool:
        """Whether it does its work now."""

    async def stop(self) -> None:
        """End it in its orderly way."""

    def kill(self) -> None:
        """End it at once."""


class Keeper:
    """Runs one `Kept` until stopped.

    A process that never came to serve in `first_tries` lives is not going to: `run` raises then.
    Once it has served it is started again for ever, with a growing pause.

    :param on_serving: called each time a newly started process serves.
    """

    def __init__(
        self, kept: Kept, on_serving: Callable[[Keeper], None], first_tries: int = 3
    ) -> None:
        self.kept = kept
        self.serving = asyncio.Event()
        self._on_serving = on_serving
        self._tries_left = first_tries
        self._has_served = False
        self._stopping = asyncio.Event()
        self._backoff = FIRST_BACKOFF

    @property
    def name(self) -> str:
        """Name of the process."""
        return self.kept.name

    @property
    def pid(self) -> int | None:
        """Of its latest life."""
        return self.kept.child.pid if self.kept.child else None

    async def run(self) -> None:
        """Keep it running until `stop`.

        :raises DevError: if it fails before it ever served.
        """
        while not self._stopping.is_set():
            try:
                await self._live()
            except DevError as error:
                if self._stopping.is_set():
                    return
                self._count_failure(error)
            await self._pause()

    async def stop(self) -> None:
        """End the process, and with it `run`. Safe to repeat, and before `run`."""
        self._stopping.set()
        await self.kept.stop()

    def kill(self) -> None:
        """End the process at once."""
        self._stopping.set()
        self.kept.kill()

    async def _live(self) -> None:
        """One life, from start to end."""
        await self._start()
        child = self.kept.child
        assert child is not None
        if self._stopping.is_set():  # asked for while it was starting
            await self.kept.stop()
        began = asyncio.get_running_loop().time()
        await self._until_serving(child)
        code = await child.wait()
        child.kill()  # what it started and left behind
        self.serving.clear()
        if self._stopping.is_set():
            return
        if asyncio.get_running_loop().time() - began > SETTLED_AFTER:
            self._backoff = FIRST_BACKOFF
        if not self._has_served:
            child.require_running()
        log.warning("%s (process %d) ended with %s", self.name, child.pid, describe_exit(code))

    async def _start(self) -> None:
        try:
            await self.kept.start()
        except OSError as error:  # no space for its log, no more processes
            raise DevError(f"{self.name}: cannot be started: {in_words(error)}") from error

    async def _until_serving(self, child: Child) -> None:
        """Returns once it serves, or has ended."""
        ended = asyncio.create_task(child.wait())
        try:
            while not ended.done():
                if await self.kept.serves():
                    self._served(child)
                    return
                await asyncio.wait({ended}, timeout=PROBE_INTERVAL)
        finally:
            ended.cancel()
            await asyncio.gather(ended, return_exceptions=True)

    def _served(self, child: Child) -> None:
        if self._has_served:
            log.info("%s serves again (process %d)", self.name, child.pid)
        self._has_served = True
        self.serving.set()
        self._on_serving(self)

    def _count_failure(self, error: DevError) -> None:
        self._tries_left -= 1
        if not self._has_served and self._tries_left <= 0:
            raise error
        log.warning("%s", error)

    async def _pause(self) -> None:
        if self._stopping.is_set():
            return
        log.info("%s is started again in %.1f s", self.name, self._backoff)
        try:
            async with asyncio.timeout(self._backoff):
                await self._stopping.wait()
        except TimeoutError:
            self._backoff = min(2 * self._backoff, LONGEST_BACKOFF)
