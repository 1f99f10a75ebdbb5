"""One watch of one job: from the first snapshot, through lost events and outages, to its end."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Collection
from types import TracebackType
from typing import Self

import grpc

from jobmesh.errors import Draining, JobmeshError, Unavailable
from jobmesh.v1.job_pb2 import JOB_VIEW_BASIC, Job, JobEvent
from jobmesh_gateway import telling
from jobmesh_gateway.events import EventFeed
from jobmesh_gateway.fanout import Watcher, Watchers
from jobmesh_gateway.reader import JobReader
from jobmesh_gateway.revisions import Ended, RevisionMerge, Told

# Between the announcement and the first event lies a moment in which events are not sent yet.
FIRST_REREAD_SECONDS = 1.0
# What an event that was lost costs at the most, with NATS up and down.
POLL_SECONDS = 5.0
POLL_WITHOUT_EVENTS_SECONDS = 1.0
HEARTBEAT_SECONDS = 10.0
# A read that did not bring what an event told, or failed, is repeated after so long.
RETRY_SECONDS = 0.25
OUTAGE_SECONDS = 30.0
# Events told in one go; then the loop and the others have their turn.
_MOST_AT_ONCE = 100


class TooSlow(JobmeshError):
    """The watcher reads more slowly than its job changes; it may resume where it is."""

    default_code = grpc.StatusCode.RESOURCE_EXHAUSTED
    default_reason = "WATCH_TOO_SLOW"

    def __init__(self, revision: int) -> None:
        super().__init__(
            f"the watch reads too slowly; watch again with after_revision {revision}",
            metadata={"revision": str(revision)},
            retry_after=1.0,
        )


class Watching:
    """Opens watches."""

    def __init__(self, reader: JobReader, feed: EventFeed, watchers: Watchers) -> None:
        self.reader = reader
        self.feed = feed
        self.watchers = watchers

    def open(self, job_id: str, kinds: Collection[str], after_revision: int = 0) -> JobWatch:
        """A watch to be entered with ``async with``.

        :param kinds: of events beside changes of state: ``progress``, ``log``, ``checkpoint``.
        """
        return JobWatch(self, job_id, kinds, after_revision)


class JobWatch:
    """The events of one job for one watcher; after ``ended`` there are no more.

    ``job`` is the terminal job, once it has ended.
    """

    def __init__(
        self, watching: Watching, job_id: str, kinds: Collection[str], after_revision: int
    ) -> None:
        self.job: Job | None = None
        self._job_id = job_id
        self._kinds = kinds
        self._watching = watching
        self._merge = RevisionMerge(after_revision)
        self._side = telling.SideEvents(job_id, kinds)
        self._watcher: Watcher
        self._clock = asyncio.get_running_loop().time
        self._poll_at = 0.0
        self._read_at = 0.0
        self._beat_at = 0.0
        self._failing_since: float | None = None

    @property
    def ended(self) -> bool:
        """The terminal event was given out."""
        return self._merge.ended

    @property
    def revision(self) -> int:
        """The last revision given out."""
        return self._merge.last

    async def __aenter__(self) -> Self:
        watching = self._watching
        self._watcher = watching.watchers.add(self._job_id, self._kinds)
        try:
            await watching.feed.want(self._job_id)
        except BaseException:
            watching.watchers.remove(self._watcher)
            raise
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._watching.watchers.remove(self._watcher)

    async def next(self) -> list[JobEvent]:
        """The next events; waits until there are some, for a heartbeat at the longest.

        :raises NotFound: there is no such job (any more).
        :raises Draining: the gateway stops; another one goes on from `revision`.
        :raises TooSlow: changes came faster than they were taken.
        :raises BackendUnavailable: no dispatcher answered: at the start, or for long.
        """
        while not self.ended:
            self._require_open()
            events = await self._advance()
            now = self._clock()
            if not events and now >= self._beat_at > 0:
                events = [telling.heartbeat(self._job_id, self.revision)]
            if events:
                self._beat_at = now + HEARTBEAT_SECONDS
                return events
            self._watcher.due = self._next_due()
            await self._watcher.wait()
        return []

    def _require_open(self) -> None:
        if self._watcher.closing:
            raise Draining("this gateway")
        if self._watcher.mailbox.overflowed:
            raise TooSlow(self.revision)

    def _next_due(self) -> float:
        read_at = self._read_at if self._merge.needs_read else self._poll_at
        return min(read_at, self._poll_at, self._beat_at)

    async def _advance(self) -> list[JobEvent]:
        now = self._clock()
        if self._merge.needs_read and now >= self._read_at:
            return await self._guarded(self._read())
        if self._watcher.reread or now >= self._poll_at:
            return await self._guarded(self._poll())
        return self._take()

    def _take(self) -> list[JobEvent]:
        events: list[JobEvent] = []
        while len(events) < _MOST_AT_ONCE:
            event = self._watcher.mailbox.pop()
            if event is None:
                return events
            if event.HasField("state_changed"):
                events += self._tell(self._merge.offer(event.state_changed))
            else:
                events += self._side.accept(event, self.revision)
        self._watcher.wake.set()  # there may be more
        return events

    async def _read(self) -> list[JobEvent]:
        """Read the whole job, to begin, to fill a gap or to end."""
        job = await self._watching.reader.read(self._job_id)
        self._plan_poll()
        # Its progress first: nothing follows the end.
        events = [*self._side.catch_up(job), *self._tell(self._merge.load(job))]
        if self._merge.needs_read:
            self._read_at = self._clock() + RETRY_SECONDS
        return events

    async def _poll(self) -> list[JobEvent]:
        """Look whether an event was lost."""
        self._watcher.reread = False
        job = await self._watching.reader.read(self._job_id, JOB_VIEW_BASIC)
        self._plan_poll()
        if self._merge.behind(job):
            return await self._read()
        return self._side.catch_up(job)

    def _plan_poll(self) -> None:
        if not self._poll_at:
            wait = FIRST_REREAD_SECONDS
        elif self._watching.feed.connected:
            wait = POLL_SECONDS
        else:
            wait = POLL_WITHOUT_EVENTS_SECONDS
        self._poll_at = self._clock() + wait
        self._failing_since = None

    async def _guarded(self, reading: Awaitable[list[JobEvent]]) -> list[JobEvent]:
        """Sit out an outage of the dispatchers, for a while, once the watch has begun."""
        try:
            return await reading
        except Unavailable:
            now = self._clock()
            self._failing_since = self._failing_since or now
            if not self._poll_at or now - self._failing_since > OUTAGE_SECONDS:
                raise
            self._read_at = self._poll_at = now + RETRY_SECONDS
            return []

    def _tell(self, told: list[Told]) -> list[JobEvent]:
        events = []
        for item in told:
            if isinstance(item, Ended):
                self.job = item.job
            events.append(telling.event_of(self._job_id, item))
        return events
