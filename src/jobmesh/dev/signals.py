"""The requests to stop that come as signals."""

from __future__ import annotations

import asyncio
import signal
from typing import Self

STOPPING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class StopRequests:
    """`asked` is set by the first SIGINT, SIGTERM or SIGHUP; `again` by the next."""

    def __init__(self) -> None:
        self.asked = asyncio.Event()
        self.again = asyncio.Event()

    def __enter__(self) -> Self:
        loop = asyncio.get_running_loop()
        for number in STOPPING:
            loop.add_signal_handler(number, self._receive)
        return self

    def __exit__(self, *_: object) -> None:
        loop = asyncio.get_running_loop()
        for number in STOPPING:
            loop.remove_signal_handler(number)

    def _receive(self) -> None:
        (self.again if self.asked.is_set() else self.asked).set()
