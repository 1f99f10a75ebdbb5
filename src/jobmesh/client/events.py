"""What a watch yields: one small class for each thing that happens to a job."""

from __future__ import annotations

from dataclasses import dataclass

from jobmesh.client.info import Change, JobInfo, LogLine, Progress


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The job as it stood when the watch began. First, once."""

    job: JobInfo


@dataclass(frozen=True, slots=True)
class StateChanged:
    """The job entered a state. Every change is told, once and in order."""

    change: Change


@dataclass(frozen=True, slots=True)
class ProgressMade:
    """The handler reported progress; steps may be left out when they come faster than read."""

    progress: Progress


@dataclass(frozen=True, slots=True)
class Logged:
    """The handler logged a line; told only if asked for."""

    line: LogLine


@dataclass(frozen=True, slots=True)
class CheckpointStored:
    """The handler stored a checkpoint durably; told only if asked for."""

    attempt: int
    size_bytes: int


@dataclass(frozen=True, slots=True)
class ChangesLost:
    """Changes from ``first`` to ``last`` are no longer kept (a job keeps its last 256)."""

    first: int
    last: int


@dataclass(frozen=True, slots=True)
class Ended:
    """The job is terminal. Last, once."""

    job: JobInfo


Event = Snapshot | StateChanged | ProgressMade | Logged | CheckpointStored | ChangesLost | Ended
