"""The one contract of long-lived parts, and the process that runs them.

Parts start in order and stop in reverse. SIGTERM or SIGINT stops the service; a second one ends the
process at once. A background task that fails stops it too, with exit code 1.
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import time
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, Protocol

import uvloop

from jobmesh.server import logs, tracing
from jobmesh.server.tasks import Periodic, TaskOwner, set_failure_handler

__all__ = ["Part", "Periodic", "Service", "TaskOwner", "run_forever"]

log = logging.getLogger(__name__)

EXIT_OK = 0
EXIT_FAILED = 1


class Part(Protocol):
    """Anything that lives as long as the service.

    ``stop`` must be safe when called twice, and when ``start`` was never called or failed midway.
    """

    async def start(self) -> None:
        """Return once the part works."""

    async def stop(self) -> None:
        """Return once nothing of the part runs any more."""


class Service:
    """Starts parts in order, waits for a reason to stop, stops them in reverse.

    - ``name``: for logs.
    - ``parts``: the parts, or a function that makes them once the loop runs.
    - ``stop_timeout_seconds``: how long one part may take to stop before it is left behind.
    - ``handle_signals``: False on the loop of another thread than the main one, which alone may.
    """

    def __init__(
        self,
        name: str,
        parts: Sequence[Part] | Callable[[Service], Sequence[Part]],
        *,
        stop_timeout_seconds: float = 60.0,
        handle_signals: bool = True,
    ) -> None:
        self.name = name
        self._parts = parts
        self._stop_timeout = stop_timeout_seconds
        self._handles_signals = handle_signals
        self._stopping = asyncio.Event()
        self._failure: BaseException | None = None

    def request_stop(self) -> None:
        """Stop in an orderly way, as on SIGTERM."""
        self._stopping.set()

    def fail(self, what: str, error: BaseException) -> None:
        """Stop because ``what`` cannot go on; the exit code will be 1."""
        if self._failure is None:
            self._failure = error
            log.critical("%s stops: %s failed: %s", self.name, what, error)
        self._stopping.set()

    async def run(self) -> int:
        """Run until stopped; the process's exit code."""
        set_failure_handler(self.fail)
        if self._handles_signals:
            self._handle_signals()
        started: list[Part] = []
        try:
            parts = self._parts(self) if callable(self._parts) else self._parts
            await self._until_stopped(self._start(parts, started))
            if not self._stopping.is_set():
                log.info("%s is up", self.name)
                await self._stopping.wait()
        except Exception as error:
            self._failure = error
            log.critical("%s could not start: %s", self.name, error, exc_info=error)
        finally:
            await self._stop(started)
            log.info("%s has stopped", self.name)
        return EXIT_FAILED if self._failure is not None else EXIT_OK

    async def _start(self, parts: Sequence[Part], started: list[Part]) -> None:
        for part in parts:
            started.append(part)  # before: a start that breaks midway is stopped too
            await part.start()

    async def _until_stopped(self, start: Coroutine[Any, Any, None]) -> None:
        """Await the start, unless a stop is asked for meanwhile."""
        starting = asyncio.create_task(start, name=f"{self.name}-start")
        stopping = asyncio.create_task(self._stopping.wait())
        try:
            await asyncio.wait({starting, stopping}, return_when=asyncio.FIRST_COMPLETED)
            if starting.done():
                starting.result()
        finally:
            starting.cancel()
            stopping.cancel()
            await asyncio.gather(starting, stopping, return_exceptions=True)

    async def _stop(self, started: list[Part]) -> None:
        for part in reversed(started):
            name = type(part).__name__
            began = time.monotonic()
            try:
                async with asyncio.timeout(self._stop_timeout):
                    await part.stop()
            except TimeoutError:
                log.error("%s: %s did not stop in time", self.name, name)
                self._failure = self._failure or TimeoutError(name)
            except Exception as error:
                log.error("%s: %s did not stop cleanly", self.name, name, exc_info=error)
                self._failure = self._failure or error
            log.debug("%s stopped after %.3f s", name, time.monotonic() - began)

    def _handle_signals(self) -> None:
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._on_signal, number)

    def _on_signal(self, number: signal.Signals) -> None:
        if self._stopping.is_set():
            log.warning("%s: second %s, exiting at once", self.name, number.name)
            logging.shutdown()  # milliseconds, unless nobody reads the log
            os._exit(128 + number)
        log.info("%s: %s, stopping", self.name, number.name)
        self._stopping.set()


def run_forever(
    parts: Sequence[Part] | Callable[[Service], Sequence[Part]],
    *,
    name: str = "jobmesh",
    stop_timeout_seconds: float = 60.0,
    log_level: str = "",
    log_format: str = "",
) -> int:
    """Run a service on uvloop until it is stopped; returns the exit code for ``sys.exit``.

    Pass a function when parts must be made while the loop runs. Logs and traces are set up first,
    as the environment says; what they hold is written at the end.
    """
    if log_level or log_format or not logs.configured():
        logs.configure(name, level=log_level, format=log_format)
    tracing.configure(name)

    async def main() -> int:
        return await Service(name, parts, stop_timeout_seconds=stop_timeout_seconds).run()

    try:
        return uvloop.run(main())
    finally:
        tracing.shutdown()
