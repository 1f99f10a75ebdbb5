"""Carries out a plan of faults on a mesh, and mends what it broke."""

from __future__ import annotations

import asyncio
import random
import shutil
import signal
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field

from asyncpg.exceptions import PostgresError
from nats.js.errors import NotFoundError

from jobmesh.dev.errors import DevError
from tests.faults.history import clock
from tests.faults.plan import SERVICES, Fault
from tests.faults.processes import Death, Lives
from tests.faults.stage import Stage
from tests.support.fleet import Member, plain_nats
from tests.support.wait import until

STREAM = "JOBMESH_JOBS"
READY_SECONDS = 60.0
TERM_GRACE = 40.0
LOOK_SECONDS = 0.2
CLOCK_SECONDS = 300


@dataclass(slots=True)
class Timeline:
    """What happened when; each line is told to `tell` as it comes."""

    tell: Callable[[str], None] = print
    events: list[tuple[float, str]] = field(default_factory=list)

    def add(self, text: str) -> None:
        """It happens now."""
        now = time.time()
        self.events.append((now, text))
        self.tell(f"{clock(now)}  {text}")

    def around(self, start: float, end: float, margin: float = 10.0) -> list[str]:
        """The lines of that time, and a little before and after it."""
        return [
            f"{clock(moment)}  {text}"
            for moment, text in self.events
            if start - margin <= moment <= end + margin
        ]


class Chaos:
    """Faults on one mesh; `deaths` are the processes that ended as nobody had them end."""

    def __init__(self, stage: Stage, timeline: Timeline, seed: int) -> None:
        self._stage = stage
        self._timeline = timeline
        self._dice = random.Random(f"chaos-{seed}")
        self._busy: dict[str, asyncio.Lock] = {}
        self._held: set[str] = set()
        self._lives = Lives()
        self.deaths: list[Death] = []

    @asynccontextmanager
    async def kept(self) -> AsyncIterator[None]:
        """Start what ends by itself, as whoever runs a service does."""
        keeper = asyncio.create_task(self._keep())
        try:
            yield
        finally:
            keeper.cancel()
            await asyncio.wait({keeper})
        if not keeper.cancelled():
            keeper.result()

    async def carry_out(self, faults: Sequence[Fault]) -> None:
        """All of it; returns when the last fault has been mended."""
        began = asyncio.get_running_loop().time()
        async with asyncio.TaskGroup() as group:
            for fault in faults:
                due = began + fault.at - asyncio.get_running_loop().time()
                await asyncio.sleep(max(due, 0.0))
                group.create_task(self._one(fault), name=str(fault))

    async def _one(self, fault: Fault) -> None:
        async with self._busy.setdefault(fault.resource, asyncio.Lock()):
            self._timeline.add(f"{fault.kind} {fault.target}, {fault.seconds:.1f} s")
            async with self._hurt(fault):
                await asyncio.sleep(fault.seconds)
            self._timeline.add(f"  {fault.target} is whole again after {fault.kind}")

    @asynccontextmanager
    async def _hurt(self, fault: Fault) -> AsyncIterator[None]:
        what, _, how = fault.kind.partition(".")
        if what in SERVICES:
            member = self._stage.fleet[fault.target]
            hurting = {"kill": self._killed, "freeze": _frozen, "term": self._replaced}[how](member)
        else:
            hurting = {
                "nats.kill": self._nats_killed,
                "nats.freeze": self._nats_frozen,
                "nats.wipe": self._nats_wiped,
                "nats.delete": self._stream_deleted,
                "postgres.kill": self._postgres_killed,
                "postgres.backend": self._backend_killed,
                "postgres.freeze": self._postgres_frozen,
                "postgres.readonly": self._read_only,
                "postgres.clock": self._clock_moved,
                "link.cut": self._cut,
                "link.stall": self._stalled,
            }[fault.kind](fault)
        async with hurting:
            yield

    # Services.

    @asynccontextmanager
    async def _killed(self, member: Member) -> AsyncIterator[None]:
        self._held.add(member.name)
        await member.kill()
        self._ended(member, -signal.SIGKILL, asked=False)
        yield
        await self._start(member)

    @asynccontextmanager
    async def _replaced(self, member: Member) -> AsyncIterator[None]:
        self._held.add(member.name)
        await member.terminate(TERM_GRACE)
        self._ended(member, 0, asked=True)
        yield
        await self._start(member)

    def _ended(self, member: Member, expected: int | None, *, asked: bool) -> None:
        """Note it if that was otherwise than it was made to end, or before that."""
        death = self._lives.death(member, asked=asked)
        if death.code != expected:
            self.deaths.append(death)
            self._timeline.add(str(death))

    async def _start(self, member: Member) -> None:
        await self._lives.start(member)
        self._held.discard(member.name)

        async def serves() -> bool:
            with suppress(DevError):  # it has ended again; the keeper starts it
                await member.ready(READY_SECONDS)
                return True
            return False

        await until(serves, READY_SECONDS, lambda: f"{member.name} serves again", LOOK_SECONDS)

    async def _keep(self) -> None:
        while True:
            for name, member in self._stage.fleet.members.items():
                if name not in self._held and not member.running:
                    self._ended(member, None, asked=False)
                    await self._lives.start(member)
            await asyncio.sleep(LOOK_SECONDS)  # as a supervisor that looks at intervals

    # What they stand on.

    @asynccontextmanager
    async def _nats_killed(self, fault: Fault) -> AsyncIterator[None]:
        await self._kill_nats()
        yield
        await self._stage.nats.start()

    @asynccontextmanager
    async def _nats_wiped(self, fault: Fault) -> AsyncIterator[None]:
        await self._kill_nats()
        shutil.rmtree(self._stage.nats_store)
        yield
        await self._stage.nats.start()

    async def _kill_nats(self) -> None:
        assert self._stage.nats.child is not None
        self._stage.nats.kill()
        await self._stage.nats.child.wait()

    @asynccontextmanager
    async def _nats_frozen(self, fault: Fault) -> AsyncIterator[None]:
        assert self._stage.nats.child is not None
        self._stage.nats.child.send(signal.SIGSTOP)
        yield
        self._stage.nats.child.send(signal.SIGCONT)

    @asynccontextmanager
    async def _stream_deleted(self, fault: Fault) -> AsyncIterator[None]:
        async with plain_nats(self._stage.nats.url) as client:
            with suppress(NotFoundError):  # wiped just now
                await client.jetstream().delete_stream(STREAM)
        yield

    @asynccontextmanager
    async def _postgres_killed(self, fault: Fault) -> AsyncIterator[None]:
        await self._stage.postgres.kill_all()
        yield
        await self._stage.postgres.start()

    @asynccontextmanager
    async def _backend_killed(self, fault: Fault) -> AsyncIterator[None]:
        self._stage.postgres.kill_one(self._dice)
        yield
        await self._database_answers()

    @asynccontextmanager
    async def _postgres_frozen(self, fault: Fault) -> AsyncIterator[None]:
        self._stage.postgres.freeze()
        yield
        self._stage.postgres.thaw()

    @asynccontextmanager
    async def _read_only(self, fault: Fault) -> AsyncIterator[None]:
        await self._stage.postgres.set_read_only(True)
        yield
        await self._stage.postgres.set_read_only(False)

    @asynccontextmanager
    async def _clock_moved(self, fault: Fault) -> AsyncIterator[None]:
        sign = -1 if fault.target.endswith("back") else 1
        self._stage.postgres.set_clock(sign * CLOCK_SECONDS)
        yield
        self._stage.postgres.set_clock(0)

    async def _database_answers(self) -> None:
        async def answers() -> bool:
            with suppress(OSError, PostgresError):
                await self._stage.fleet.fetch("SELECT 1")
                return True
            return False

        await until(answers, READY_SECONDS, "PostgreSQL has recovered", LOOK_SECONDS)

    # What is between them.

    @asynccontextmanager
    async def _cut(self, fault: Fault) -> AsyncIterator[None]:
        self._stage.links[fault.target].cut()
        yield
        self._stage.links[fault.target].restore()

    @asynccontextmanager
    async def _stalled(self, fault: Fault) -> AsyncIterator[None]:
        self._stage.links[fault.target].stall()
        yield
        self._stage.links[fault.target].restore()


@asynccontextmanager
async def _frozen(member: Member) -> AsyncIterator[None]:
    member.freeze()
    yield
    member.thaw()
