"""Turns the messages of one or more streams of a job into the events of one watch. No I/O.

A watch outlives its streams. Whatever a stream repeats (a snapshot, changes told before) is left
out; whatever a lost stream did not tell is taken from the history in the next snapshot. So a
watcher sees each revision once and in order, from any server, through any number of resumptions.
"""

from __future__ import annotations

from jobmesh.client.events import (
    ChangesLost,
    CheckpointStored,
    Ended,
    Event,
    Logged,
    ProgressMade,
    Snapshot,
    StateChanged,
)
from jobmesh.client.info import change_of, job_info, log_line_of, progress_of
from jobmesh.v1 import job_pb2


class Follower:
    """What a watcher of one job has been told.

    Attributes:
        revision: the last revision told: where a new stream goes on.
        ended: the terminal job was told.
        resume: the stream must be replaced by a new one.
    """

    def __init__(self, after_revision: int = 0) -> None:
        self.revision = after_revision
        self.ended = False
        self.resume = False
        self._begun = False
        self._log_sequence = 0

    def accept(self, event: job_pb2.JobEvent) -> list[Event]:
        """The events to tell the watcher for one message of a stream."""
        match event.WhichOneof("event"):
            case "snapshot":
                return self._snapshot(event.snapshot)
            case "state_changed":
                return self._changed(event.state_changed)
            case "progress":
                return [ProgressMade(progress_of(event.progress))]
            case "log":
                return self._logged(event.log)
            case "checkpoint":
                stored = event.checkpoint
                return [CheckpointStored(stored.attempt, stored.size_bytes)]
            case "terminal":
                return self._terminal(event.terminal)
            case "gap":
                return self._lost(event.gap.last_revision)
            case "reconnect":
                self.resume = True
        return []  # a heartbeat, or what a newer server tells

    def _snapshot(self, job: job_pb2.Job) -> list[Event]:
        first: list[Event] = [] if self._begun else [Snapshot(job_info(job))]
        self._begun = True
        return first + self._catch_up(job)

    def _catch_up(self, job: job_pb2.Job) -> list[Event]:
        events: list[Event] = []
        for change in job.history:
            if change.revision > self.revision:
                events += self._lost(change.revision - 1)
                events += self._tell(change)
        return events

    def _changed(self, change: job_pb2.StateChange) -> list[Event]:
        if change.revision <= self.revision:
            return []
        if change.revision > self.revision + 1:
            # The next stream's snapshot has the history of what is missing here.
            self.resume = True
            return []
        return self._tell(change)

    def _tell(self, change: job_pb2.StateChange) -> list[Event]:
        self.revision = change.revision
        return [StateChanged(change_of(change))]

    def _lost(self, last: int) -> list[Event]:
        first, self.revision = self.revision + 1, max(self.revision, last)
        return [ChangesLost(first, last)] if first <= last else []

    def _logged(self, line: job_pb2.LogLine) -> list[Event]:
        if line.sequence and line.sequence <= self._log_sequence:
            return []
        self._log_sequence = line.sequence
        return [Logged(log_line_of(line))]

    def _terminal(self, job: job_pb2.Job) -> list[Event]:
        events = self._catch_up(job)
        self.ended = True
        return [*events, Ended(job_info(job))]
