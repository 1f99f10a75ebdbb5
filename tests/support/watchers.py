"""A watcher that holds a stream of events to its promises."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jobmesh.v1.job_pb2 import Job, JobEvent, StateChange
from jobmesh.v1.job_service_pb2 import WatchInclude, WatchJobRequest

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from jobmesh.v1.job_service_pb2_grpc import JobServiceAsyncStub

STREAM_TIMEOUT = 30.0


class Watcher:
    """What a watcher of one job was told, over as many streams as it took.

    Each event is checked as it comes: changes of state one by one, nothing beyond what was told,
    the terminal job last.
    """

    def __init__(self, job_id: str) -> None:
        self.job_id = job_id
        self.changes: list[StateChange] = []
        self.progress: list[int] = []
        self.reconnects = 0
        self.end: Job | None = None

    @property
    def last(self) -> int:
        """The last revision told: where the next stream goes on."""
        return len(self.changes)

    @property
    def states(self) -> list[int]:
        """The states told, in order."""
        return [change.state for change in self.changes]

    async def stream(
        self, jobs: JobServiceAsyncStub, *include: WatchInclude.ValueType
    ) -> AsyncGenerator[JobEvent, None]:
        """One more stream, from where the last one ended; left early, it is cancelled."""
        request = WatchJobRequest(
            job_id=self.job_id, after_revision=self.last, include=list(include)
        )
        call = jobs.WatchJob(request, timeout=STREAM_TIMEOUT)
        try:
            async for event in call:
                self.take(event)
                yield event
        finally:
            call.cancel()

    def take(self, event: JobEvent) -> None:
        """Check an event, and remember it."""
        assert self.end is None, f"told after the end: {event}"
        assert event.job_id == self.job_id
        kind = event.WhichOneof("event")
        if kind == "snapshot" and not self.changes:
            self._append(*event.snapshot.history)
        elif kind == "state_changed":
            self._append(event.state_changed)
        elif kind == "progress":
            self.progress.append(event.progress.current)
        elif kind == "reconnect":
            self.reconnects += 1
        elif kind == "terminal":
            self.end = event.terminal
        assert kind != "gap"
        assert event.revision == self.last, f"a {kind} beyond what was told"

    def _append(self, *changes: StateChange) -> None:
        for change in changes:
            assert change.revision == self.last + 1
            self.changes.append(change)

    def require_whole(self) -> None:
        """Fail unless everything was told, to the end."""
        assert self.end is not None
        assert [c.revision for c in self.end.history] == [c.revision for c in self.changes]
        assert list(self.end.history) == self.changes
