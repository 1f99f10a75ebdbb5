"""A process with three parts, for the tests of starting, stopping and signals.

``argv``: what the middle part does (``works``, ``start-fails``, ``start-hangs``, ``task-fails``,
``stop-hangs``, ``stop-fails``). It prints what happens, a line each.
"""

from __future__ import annotations

import asyncio
import sys

from jobmesh.server.lifecycle import TaskOwner, run_forever


def say(what: str) -> None:
    print(what, flush=True)  # noqa: T201


class Plain:
    def __init__(self, name: str) -> None:
        self.name = name

    async def start(self) -> None:
        say(f"start {self.name}")

    async def stop(self) -> None:
        say(f"stop {self.name}")


class Middle(Plain):
    def __init__(self, behaviour: str) -> None:
        super().__init__("middle")
        self.behaviour = behaviour
        self.tasks = TaskOwner()
        self.fail = asyncio.Event()

    async def start(self) -> None:
        await super().start()
        if self.behaviour == "start-fails":
            raise OSError("cannot listen on 127.0.0.1:7480")
        if self.behaviour == "start-hangs":
            await asyncio.Event().wait()
        if self.behaviour == "task-fails":
            self.tasks.spawn("feeder", self.feed())

    async def feed(self) -> None:
        raise ValueError("no feed")

    async def stop(self) -> None:
        await super().stop()
        await self.tasks.stop()
        if self.behaviour == "stop-fails":
            raise ValueError("cannot stop")
        if self.behaviour == "stop-hangs":
            await asyncio.Event().wait()


if __name__ == "__main__":
    parts = [Plain("first"), Middle(sys.argv[1]), Plain("last")]
    sys.exit(run_forever(parts, name="test", stop_timeout_seconds=float(sys.argv[2])))
