"""Changes of state from two sources, merged so that a watcher sees each once and in order. No I/O.

Events may be lost, repeated, late or out of order. The job as it was read is never wrong, but may
be older than an event. The merge keeps the last revision told (`last`) and sets aside what lies
beyond a gap until a read fills it. It holds, for any interleaving of `offer` and `load`:

- revisions are told in order, each once, and without a gap, unless the history no longer has them
  (then `Missing` says which);
- `Ended` is told once and last, with a job whose revision is the last one told;
- `needs_read` is set until a read has filled every gap known and, once a terminal change was told,
  has brought the job itself. (A job that was retried meanwhile goes on: it has not ended.)
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from jobmesh.v1.job_pb2 import (
    JOB_STATE_CANCELLED,
    JOB_STATE_DEAD,
    JOB_STATE_SUCCEEDED,
    Job,
    JobState,
    StateChange,
)

TERMINAL = frozenset({JOB_STATE_SUCCEEDED, JOB_STATE_CANCELLED, JOB_STATE_DEAD})
# Changes set aside beyond a gap. A read fills the gap within milliseconds, and the history tells
# again what did not fit.
MAX_PENDING = 256


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The job as it stood when the watch began."""

    job: Job


@dataclass(frozen=True, slots=True)
class Changed:
    """The next change."""

    change: StateChange


@dataclass(frozen=True, slots=True)
class Missing:
    """Changes that are no longer kept, both ends included."""

    first: int
    last: int


@dataclass(frozen=True, slots=True)
class Ended:
    """The job is terminal: nothing follows."""

    job: Job


Told = Snapshot | Changed | Missing | Ended


class RevisionMerge:
    """What one watcher was told, and what to tell next.

    With ``after_revision`` the changes after it are told first, from the history, and then the
    snapshot, so that revisions never go back; a new watcher (0) gets the snapshot at once.
    """

    def __init__(self, after_revision: int = 0) -> None:
        self.last = after_revision
        self.ended = False
        self._started = False
        self._resumed = after_revision > 0
        self._state: JobState.ValueType | None = None  # at `last`, if known
        self._pending: dict[int, StateChange] = {}

    @property
    def needs_read(self) -> bool:
        """The job must be read (FULL) before more can be told."""
        if self.ended:
            return False
        return not self._started or bool(self._pending) or self._state in TERMINAL

    def behind(self, job: Job) -> bool:
        """Whether this reading of the job, perhaps BASIC, has something that was not told yet."""
        if self.ended:
            return False
        return job.revision > self.last or (job.revision == self.last and job.state in TERMINAL)

    def offer(self, change: StateChange) -> list[Told]:
        """A change that an event told."""
        if self.ended or change.revision <= self.last:
            return []
        if not self._started or change.revision > self.last + 1:
            if len(self._pending) < MAX_PENDING:
                self._pending[change.revision] = change
            return []
        return [self._tell(change), *self._drain()]

    def load(self, job: Job) -> list[Told]:
        """The job as it was read, with its history."""
        if self.ended:
            return []
        told: list[Told] = []
        if not self._started and not self._resumed:
            told.append(Snapshot(job))
            self._reach(job)
        elif not self._started:
            # A revision that the job has not reached yet was never told by anybody.
            self.last = min(self.last, job.revision)
        told += self._replay(job)
        ends = job.state in TERMINAL and job.revision == self.last
        if self._resumed and not self._started and not ends:
            told.append(Snapshot(job))
        self._started = True
        told += self._drain()
        if ends and job.revision == self.last:
            self.ended = True
            self._pending.clear()
            told.append(Ended(job))
        return told

    def _replay(self, job: Job) -> Iterable[Told]:
        for change in job.history:
            if self.last < change.revision <= job.revision:
                yield from self._skip_to(change.revision - 1)
                yield self._tell(change)
        yield from self._skip_to(job.revision)
        if self.last == job.revision:
            self._state = job.state

    def _skip_to(self, revision: int) -> Iterable[Told]:
        """Pass over changes that are no longer kept."""
        if revision > self.last:
            first, self.last = self.last + 1, revision
            yield Missing(first, revision)

    def _drain(self) -> Iterable[Told]:
        """Tell what was set aside and has its turn now."""
        told: list[Told] = []
        while (change := self._pending.pop(self.last + 1, None)) is not None:
            told.append(self._tell(change))
        if self._pending:
            self._pending = {r: c for r, c in self._pending.items() if r > self.last}
        return told

    def _tell(self, change: StateChange) -> Told:
        self.last, self._state = change.revision, change.state
        return Changed(change)

    def _reach(self, job: Job) -> None:
        self.last, self._state = job.revision, job.state
