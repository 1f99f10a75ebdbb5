"""One stream of a runner, as the dispatcher sees it.

What the runner can take, what it has, and what is on its way to it.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING
from uuid import UUID

from jobmesh.errors import JobmeshError, Unavailable
from jobmesh.ids import new_id
from jobmesh.v1 import runner_service_pb2 as pb
from jobmesh_dispatcher.claiming import Seat
from jobmesh_dispatcher.lease import Lease

if TYPE_CHECKING:
    from jobmesh.v1.runner_service_pb2 import Assignment, Hello

DEFAULT_NAMESPACE = "default"
# Answers that wait for a runner that does not read. Each belongs to something the runner sent or
# holds, so that an honest one cannot reach it.
MAX_OUTBOUND = 100_000
# A message of assignments ends once it is larger, so that none comes near the limit of 16 MiB.
MESSAGE_BYTES = 4 << 20
# Of jobs that wait to be sent: a runner behind a slow link is given no more beyond.
UNSENT_BYTES = 16 << 20


class Attachment:
    """The state of one stream.

    `leases` are claims the runner has and has not reported; `reporting` are being recorded.
    """

    def __init__(self, hello: Hello) -> None:
        self.id = UUID(new_id())
        self.session_id = UUID(hello.session_id)
        self.runner_id = hello.runner_id
        self.namespace = hello.namespace or DEFAULT_NAMESPACE
        self.types = frozenset(hello.types)
        self.queues = frozenset(hello.queues) if hello.queues else None
        self.slots = hello.slots
        self.prefetch = hello.prefetch
        self.draining = hello.draining
        self.version = hello.version
        self.leases: dict[UUID, Lease] = {}
        self._suspects: list[Lease] = []
        self.reserved = 0  # room for jobs that are being claimed
        self.set_aside = False  # for a suspect that is to have a runner for itself
        self.reporting: dict[UUID, Lease] = {}
        self.held_hint = True  # jobs may be parked that it could run
        self.bye = False
        self.error: JobmeshError | None = (
            None  # what the stream ends with, if the runner is at fault
        )
        self.has_room: Callable[[], None] = lambda: None  # told when it has some again
        self._outbound: deque[tuple[pb.WorkResponse, int]] = deque()  # with the bytes of jobs
        self._unsent = 0
        self._wake = asyncio.Event()
        self._closed = False

    @property
    def free(self) -> int:
        """How many more jobs it takes, of those that may have neighbours."""
        return 0 if self.set_aside else self.room

    @property
    def room(self) -> int:
        """How many more jobs it takes; none beside one that is to be alone."""
        if self.draining or self._closed or self._has_lonely() or self._unsent >= UNSENT_BYTES:
            return 0
        return max(0, self.slots + self.prefetch - self._load)

    @property
    def idle(self) -> int:
        """How many jobs it would begin at once: it takes others ahead of their turn."""
        return max(0, min(self.free, self.slots - self._load))

    @property
    def _load(self) -> int:
        return len(self.leases) + self.reserved

    @contextmanager
    def reserve(self, number: int) -> Iterator[None]:
        """Keep room for jobs that are being claimed: nobody else gives it away meanwhile."""
        self.reserved += number
        try:
            yield
        finally:
            self.reserved -= number

    def _has_lonely(self) -> bool:
        return bool(self._suspects) and any(lease.suspect > 1 for lease in self.suspects())

    def suspects(self) -> list[Lease]:
        """Its jobs that are suspected of having taken a runner down."""
        if self._suspects:
            self._suspects = [
                lease
                for lease in self._suspects
                if lease.suspect and self.leases.get(lease.job_id) is lease
            ]
        return self._suspects

    def seat(self) -> Seat:
        """What it can take, as a claim sees it."""
        return Seat(
            session_id=self.session_id,
            attachment=self.id,
            runner_id=self.runner_id,
            namespace=self.namespace,
            types=self.types,
            queues=self.queues,
            slots=max(1, self.slots),
            free=self.room,
            running=self._load,
            set_aside=self.set_aside,
        )

    def seat_of(self, free: int) -> Seat:
        """That, with room for so many only."""
        return replace(self.seat(), free=free)

    def assign(self, jobs: Iterable[tuple[Lease, Assignment]]) -> None:
        """Give it claimed jobs."""
        message, size = pb.Assignments(), 0
        for lease, assignment in jobs:
            self.hold(lease)
            message.jobs.append(assignment)
            size += assignment.ByteSize()
            if size >= MESSAGE_BYTES:
                self.send(pb.WorkResponse(assignments=message), size)
                message, size = pb.Assignments(), 0
        if message.jobs:
            self.send(pb.WorkResponse(assignments=message), size)

    def hold(self, lease: Lease) -> None:
        """Note a claim that it has."""
        self.leases[lease.job_id] = lease
        lease.attachment = self.id
        if lease.suspect:
            self._suspects.append(lease)

    def lease_of(self, job_id: UUID, attempt: int) -> Lease | None:
        """The claim, if it is still the runner's and nothing was reported of it."""
        lease = self.leases.get(job_id)
        return lease if lease is not None and lease.attempt == attempt else None

    def send(self, response: pb.WorkResponse, size: int = 0) -> None:
        """Send soon, in order; `size` is that of jobs in it, in bytes.

        Never fails: a runner that does not read is given up.
        """
        if self._closed:
            return
        if len(self._outbound) >= MAX_OUTBOUND:
            self.fail(Unavailable("the runner does not read what it is sent"))
            return
        self._outbound.append((response, size))
        self._unsent += size
        self._wake.set()

    def fail(self, error: JobmeshError) -> None:
        """End the stream at once, and say why; the first reason counts."""
        self.error = self.error or error
        self._outbound.clear()
        self.close()

    def close(self) -> None:
        """End the stream once what waits has been sent."""
        self._closed = True
        self._wake.set()

    async def outbound(self) -> AsyncIterator[pb.WorkResponse]:
        """What is to be sent, until the attachment is closed."""
        while True:
            while self._outbound:
                response, size = self._outbound.popleft()
                yield response
                self._sent(size)
            if self._closed:
                return
            await self._wake.wait()
            self._wake.clear()

    def _sent(self, size: int) -> None:
        had_room = self._unsent < UNSENT_BYTES
        self._unsent -= size
        if not had_room and self._unsent < UNSENT_BYTES:
            self.has_room()
