"""`jobmesh dev` in the foreground: lock, logs, terminal, supervisor."""

from __future__ import annotations

import asyncio
import logging
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from jobmesh.dev.banner import banner
from jobmesh.dev.directory import DataDirectory
from jobmesh.dev.follow import LogFollower
from jobmesh.dev.options import DevOptions
from jobmesh.dev.outlet import Outlet
from jobmesh.dev.ownlog import logging_to
from jobmesh.dev.ports import PortPool
from jobmesh.dev.rotation import keep_small
from jobmesh.dev.signals import StopRequests
from jobmesh.dev.supervisor import Supervisor

log = logging.getLogger("jobmesh.dev")


def run_dev(options: DevOptions, *, detached: bool = False) -> None:
    """Run a mesh until a signal asks to stop, or whoever read our standard output has gone.

    :param detached: nobody watches; of what is logged nothing is printed.
    :raises DevError: if it cannot be started.
    """
    asyncio.run(_run(options, detached))


async def _run(options: DevOptions, detached: bool) -> None:
    data = DataDirectory(options.directory)
    data.prepare()
    with ExitStack() as screen:
        with ExitStack() as stack:
            stack.enter_context(data.locked())
            ports = stack.enter_context(PortPool())
            stack.enter_context(logging_to(data.log("dev")))
            stops = stack.enter_context(StopRequests())
            supervisor = Supervisor(
                options,
                data,
                ports,
                lambda content: say(banner(content, options, detached), all_is_well=True),
            )
            shown = {} if detached else supervisor.logs()
            say = screen.enter_context(_following(shown, _stop_from_thread(stops))).say
            say(f"starting a mesh in {options.directory} …")
            await _supervise(supervisor, stops, say)
        say("jobmesh has stopped", all_is_well=True)


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
def _following(files: dict[str, Path], on_gone: Callable[[], None]) -> Iterator[LogFollower]:
    """Prints all that is printed: who waits for the reader of that does not hear a stop."""
    outlet = Outlet(sys.stdout.fileno(), sys.stdout.encoding)
    follower = LogFollower(files, outlet, _wants_colour(), on_gone)
    follower.start()
    try:
        yield follower
    finally:
        follower.stop()


def _stop_from_thread(stops: StopRequests) -> Callable[[], None]:
    """As in `jobmesh dev | head`: who has seen enough wants no mesh that runs on unseen."""
    loop = asyncio.get_running_loop()

    def stop() -> None:
        log.info("whoever read the output has gone: stopping")
        with suppress(RuntimeError):  # the loop has ended already
            loop.call_soon_threadsafe(stops.asked.set)

    return stop


def _wants_colour() -> bool:
    return sys.stdout.isatty() and not os.environ.get("NO_COLOR")
