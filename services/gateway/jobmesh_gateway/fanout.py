"""Who watches what on this gateway, and the way of an event to those who wait for it.

Watchers are woken by events, by the tick when something of theirs is due, and by the drain. Where
many watch one job, its progress waits for the tick: ten steps a second to each of a hundred would
keep the loop from everybody else.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterable

from jobmesh.errors import Draining, Overloaded
from jobmesh.ids import bucket_of
from jobmesh.server import metrics
from jobmesh.v1.job_pb2 import JobEvent
from jobmesh_gateway.mailbox import Mailbox

BUCKETS = 256
CROWD = 16

_open = metrics.gauge("jobmesh_gateway_watches", "Streams and waits that are open.")
_dropped = metrics.counter(
    "jobmesh_gateway_lines_dropped_total", "Log lines not sent to watchers that were too slow."
)


class Watcher:
    """One watch of one job: what waits for it, and when it wants to be woken at the latest."""

    __slots__ = ("closing", "due", "job_id", "kinds", "mailbox", "reread", "wake")

    def __init__(self, job_id: str, kinds: frozenset[str]) -> None:
        self.job_id = job_id
        self.kinds = kinds
        self.mailbox = Mailbox()
        self.wake = asyncio.Event()
        self.due = 0.0  # in the loop's time
        self.reread = False  # events may have been lost: read the job
        self.closing = False  # the gateway stops

    async def wait(self) -> None:
        """Until something was put into the mailbox, is due, or was asked for."""
        await self.wake.wait()
        self.wake.clear()


class Watchers:
    """All watches of this gateway."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._by_job: dict[str, set[Watcher]] = {}
        self._buckets = [0] * BUCKETS  # watched jobs in each
        self._count = 0
        self._draining = False
        self._empty = asyncio.Event()
        self._empty.set()

    def __len__(self) -> int:
        return self._count

    def add(self, job_id: str, kinds: Collection[str]) -> Watcher:
        """Begin to collect changes of state and events of these kinds. :meth:`remove` it later."""
        if self._draining:
            raise Draining("this gateway")
        if self._count >= self._limit:
            raise Overloaded("watching", retry_after=1.0)
        watcher = Watcher(job_id, frozenset(kinds) | {"state_changed"})
        watchers = self._by_job.get(job_id)
        if watchers is None:
            watchers = self._by_job[job_id] = set()
            self._buckets[bucket_of(job_id)] += 1
        watchers.add(watcher)
        self._count += 1
        self._empty.clear()
        _open.inc()
        return watcher

    def remove(self, watcher: Watcher) -> None:
        """Forget it; safe to repeat."""
        watchers = self._by_job.get(watcher.job_id)
        if watchers is None or watcher not in watchers:
            return
        watchers.remove(watcher)
        if not watchers:
            del self._by_job[watcher.job_id]
            self._buckets[bucket_of(watcher.job_id)] -= 1
        self._count -= 1
        _open.dec()
        _dropped.inc(watcher.mailbox.dropped)
        if not self._count:
            self._empty.set()

    def wants(self, bucket: int) -> bool:
        """Whether a job of the bucket is watched."""
        return 0 <= bucket < BUCKETS and self._buckets[bucket] > 0

    def wanted(self) -> bytes:
        """One bit for each bucket, the lowest of the first byte being bucket 0."""
        bits = sum(1 << bucket for bucket, jobs in enumerate(self._buckets) if jobs)
        return bits.to_bytes(BUCKETS // 8, "little")

    def deliver(self, events: Iterable[JobEvent]) -> None:
        """Put events into the mailboxes of those who want them."""
        for event in events:
            watchers = self._by_job.get(event.job_id)
            if watchers:
                _deliver(event, watchers)

    async def tick(self) -> None:
        """Wake those for whom something is due."""
        now = asyncio.get_running_loop().time()
        for watcher in self._all():
            if watcher.due <= now or watcher.mailbox:
                watcher.wake.set()

    def reread(self) -> None:
        """Events were lost, or may be: every watcher reads its job."""
        for watcher in self._all():
            watcher.reread = True
            watcher.wake.set()

    async def drain(self) -> None:
        """Refuse new watches, end the open ones, and wait until they are gone."""
        self._draining = True
        for watcher in self._all():
            watcher.closing = True
            watcher.wake.set()
        await self._empty.wait()

    def _all(self) -> Iterable[Watcher]:
        for watchers in self._by_job.values():
            yield from watchers


def _deliver(event: JobEvent, watchers: Collection[Watcher]) -> None:
    kind = event.WhichOneof("event")
    if kind is None:
        return
    may_wait = kind == "progress" and len(watchers) > CROWD
    own: JobEvent | None = None
    size = 0
    for watcher in watchers:
        if kind in watcher.kinds:
            if own is None:
                # A copy for all: the event itself would keep its whole batch in memory.
                own = JobEvent()
                own.CopyFrom(event)
                size = own.ByteSize()
            watcher.mailbox.put(own, kind, size)
            if not may_wait:
                watcher.wake.set()
