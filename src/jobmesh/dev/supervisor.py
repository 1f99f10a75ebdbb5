"""Runs a whole mesh on this machine, and stops it in the order in which nothing is lost."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from importlib import import_module
from pathlib import Path

from jobmesh.dev.backend import Backend
from jobmesh.dev.directory import DataDirectory
from jobmesh.dev.errors import DevError, in_words
from jobmesh.dev.forking import Forks
from jobmesh.dev.keeper import Keeper
from jobmesh.dev.nats import EmbeddedNats, NatsConfig
from jobmesh.dev.options import DevOptions
from jobmesh.dev.ports import PortPool
from jobmesh.dev.postgres import FAILURES, EmbeddedPostgres, PostgresConfig
from jobmesh.dev.readyfile import ReadyFile
from jobmesh.dev.roster import STOP_ORDER, Backends, enrol, equip, service_command
from jobmesh.errors import JobmeshError

log = logging.getLogger("jobmesh.dev")

FLIGHTS = "flights"
IMPATIENCE = 10.0


class Supervisor:
    """One mesh. Make it with the directory's lock held.

    :param on_ready: called with the content of the ready file when the whole mesh first serves.
    :param command: what runs a service of that name.
    """

    def __init__(
        self,
        options: DevOptions,
        data: DataDirectory,
        ports: PortPool,
        on_ready: Callable[[dict[str, object]], None],
        command: Callable[[str], tuple[str, ...]] = service_command,
    ) -> None:
        self._command = command
        self._on_ready = on_ready
        self._postgres = EmbeddedPostgres(
            PostgresConfig(root=data.postgres, port=ports.take(), log=data.log("postgres"))
        )
        self._nats = EmbeddedNats(
            NatsConfig(root=data.nats, port=ports.take(), log=data.log("nats"))
        )
        self._forks = Forks()
        self._services = enrol(options, ports, self._forks.start)
        self._options = options
        self._data = data
        asked_for = [options.ready_path] if options.ready_path else []
        self._ready_file = ReadyFile([data.ready, *asked_for])
        self._complete = False
        self._backends = [
            Keeper(Backend("postgres", self._postgres), self._serving, first_tries=1),
            Keeper(Backend("nats", self._nats), self._serving, first_tries=1),
        ]
        self._keepers = [Keeper(service, self._serving) for service in self._services]

    async def run(self, asked: asyncio.Event, again: asyncio.Event) -> None:
        """Run the mesh until `asked`; `again` makes the stop a quick one.

        :raises DevError: if it cannot be started.
        """
        self._ready_file.remove()
        try:
            async with asyncio.TaskGroup() as group:
                starting = group.create_task(self._start(group, asked))
                await asked.wait()
                starting.cancel()
                await self._stop(again)
        except ExceptionGroup as failures:
            told, others = failures.split(DevError)
            if told is None or others is not None:
                raise
            raise _first(told) from None
        finally:
            await self._stop(again)
            self._forks.close()

    async def _start(self, group: asyncio.TaskGroup, asked: asyncio.Event) -> None:
        try:
            await self._start_all(group)
        except DevError:
            # A server that was stopped under a call made the call fail: no failure of the start.
            if not asked.is_set():
                raise

    async def _start_all(self, group: asyncio.TaskGroup) -> None:
        if self._command is service_command:
            self._forks.prepare()
        for keeper in self._backends:
            group.create_task(keeper.run(), name=keeper.name)
        await _all_serving(self._backends)
        await self._prepare_databases()
        dsn = self._postgres.dsn
        equip(
            self._services,
            self._options,
            self._data,
            Backends(dsn(), self._nats.url, dsn(FLIGHTS)),
            self._command,
        )
        for keeper in self._keepers:
            group.create_task(keeper.run(), name=keeper.name)
        await _all_serving(self._keepers)
        self._complete = True
        self._ready_file.put(self.description())
        self._on_ready(self.description())

    async def _prepare_databases(self) -> None:
        await self._postgres.ensure_database(FLIGHTS)
        # By name: the library knows no service.
        try:
            await import_module("jobmesh_dispatcher.migrate").migrate(self._postgres.dsn())
        except (*FAILURES, JobmeshError) as error:
            raise DevError(f"the database cannot be migrated: {in_words(error)}") from error

    def logs(self) -> dict[str, Path]:
        """The log of every process by its name, and our own."""
        names = ["dev", "postgres", "nats", *(each.name for each in self._services)]
        return {name: self._data.log(name) for name in names}

    def description(self) -> dict[str, object]:
        """The content of the ready file."""
        return {
            "gateway": [each.address for each in self._services if each.service == "gateway"],
            "http": {each.name: each.http for each in self._services},
            "postgres": self._postgres.dsn(),
            "nats": self._nats.url,
            "processes": {keeper.name: keeper.pid for keeper in self._keepers},
        }

    def _serving(self, keeper: Keeper) -> None:
        log.debug("%s serves", keeper.name)
        if self._complete:
            with _told_only():
                self._ready_file.put(self.description())

    async def _stop(self, again: asyncio.Event) -> None:
        """Stop in order; once asked again, kill what is left."""
        self._complete = False
        with _told_only():
            self._ready_file.remove()
        orderly = asyncio.create_task(self._stop_in_order())
        impatient = asyncio.create_task(again.wait())
        try:
            await asyncio.wait({orderly, impatient}, return_when=asyncio.FIRST_COMPLETED)
            if not orderly.done():
                self._kill_all()
            await orderly
        finally:
            impatient.cancel()
            with suppress(asyncio.CancelledError):
                await impatient

    async def _stop_in_order(self) -> None:
        by_service = {keeper.name: keeper for keeper in self._keepers}
        for service in STOP_ORDER:
            names = [each.name for each in self._services if each.service == service]
            await asyncio.gather(*(by_service[name].stop() for name in names))
        for keeper in reversed(self._backends):
            await keeper.stop()

    def _kill_all(self) -> None:
        for keeper in [*self._keepers, *self._backends]:
            keeper.kill()


@contextmanager
def _told_only() -> Iterator[None]:
    """What goes wrong in here is no reason to end, or not to end in order, what serves."""
    try:
        yield
    except DevError as error:
        log.warning("%s", error)


async def _all_serving(keepers: list[Keeper]) -> None:
    """Wait for all, and name the missing ones now and then."""
    while waiting := [keeper for keeper in keepers if not keeper.serving.is_set()]:
        try:
            async with asyncio.timeout(IMPATIENCE):
                await waiting[0].serving.wait()
        except TimeoutError:
            names = ", ".join(keeper.name for keeper in waiting)
            log.warning("still waiting for: %s (see their logs)", names)


def _first(failures: ExceptionGroup[DevError]) -> DevError:
    """The failure that ended the others."""
    first: BaseException = failures
    while isinstance(first, BaseExceptionGroup):
        first = first.exceptions[0]
    assert isinstance(first, DevError)
    return first
