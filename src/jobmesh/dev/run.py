"""`jobmesh dev` in the foreground: lock, logs, terminal, supervisor."""

from __future__ import annotations

import asyncio
import logging
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from jobmesh.dev.banner import banner
from jobmesh.dev.directory import DataDirectory
from jobmesh.dev.follow import LogFollower
from jobmesh.dev.options import DevOptions
from jobmesh.dev.ports import PortPool
from jobmesh.dev.rotation import keep_small
from jobmesh.dev.signals import StopRequests
from jobmesh.dev.supervisor import Supervisor

log = logging.getLogger("jobmesh.dev")


def run_dev(options: DevOptions, *, say: Callable[[str], None], detached: bool = False) -> None:
    """Run a mesh until a signal asks to stop.

    :param say: prints to the person who started it.
    :param detached: nobody watches; nothing is printed but by `say`.
    :raises DevError: if it cannot be started.
    """
    asyncio.run(_run(options, say, detached))


async def _run(options: DevOptions, say: Callable[[str], None], detached: bool) -> None:
    data = DataDirectory(options.directory)
    data.prepare()
    with ExitStack() as stack:
        stack.enter_context(data.locked())
        ports = stack.enter_context(PortPool())
        stack.enter_context(_logging_to(data.log("dev")))
        stops = stack.enter_context(StopRequests())
        supervisor = Supervisor(
            options, data, ports, lambda content: say(banner(content, options, detached))
        )
        if not detached:
            stack.enter_context(_followed(supervisor.logs()))
        say(f"starting a mesh in {options.directory} …")
        await _supervise(supervisor, stops, say)
    say("jobmesh has stopped")


async def _supervise(
    supervisor: Supervisor, stops: StopRequests, say: Callable[[str], None]
) -> None:
    rotating = asyncio.create_task(keep_small(supervisor.logs().values()))
    announcing = asyncio.create_task(_announce_stop(stops, say))
    try:
        await supervisor.run(stops.asked, stops.again)
    finally:
        for task in (rotating, announcing):
            task.cancel()
        await asyncio.gather(rotating, announcing, return_exceptions=True)


async def _announce_stop(stops: StopRequests, say: Callable[[str], None]) -> None:
    await stops.asked.wait()
    say("stopping; running jobs are drained. Ctrl-C again to end at once")
    await stops.again.wait()
    say("ending at once")


@contextmanager
def _followed(files: dict[str, Path]) -> Iterator[None]:
    follower = LogFollower(files, sys.stdout, _wants_colour())
    follower.start()
    try:
        yield
    finally:
        follower.stop()


def _wants_colour() -> bool:
    return sys.stdout.isatty() and not os.environ.get("NO_COLOR")


@contextmanager
def _logging_to(path: Path) -> Iterator[None]:
    """The supervisor's own log, shown beside the others."""
    handler = logging.FileHandler(path)
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(message)s", "%H:%M:%S"))
    log.addHandler(handler)
    log.setLevel(logging.INFO)
    log.propagate = False
    try:
        yield
    finally:
        log.removeHandler(handler)
        handler.close()
