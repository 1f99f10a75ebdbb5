"""What stands behind a handler's context: what is known of its job, and its way to the mesh."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import Future
from datetime import datetime
from typing import Protocol

from jobmesh.job_log import LogSink
from jobmesh.steps import StepLine


class JobInfo(Protocol):
    """What is known of the job and its attempt."""

    @property
    def job_id(self) -> str:
        """Its UUID."""

    @property
    def type(self) -> str:
        """The task's name."""

    @property
    def queue(self) -> str:
        """Its queue."""

    @property
    def attempt(self) -> int:
        """Counts the claims of the job, from 1."""

    @property
    def failures(self) -> int:
        """Attempts that failed before."""

    @property
    def max_attempts(self) -> int:
        """Attempts that may fail in all; 0 if unknown."""

    @property
    def labels(self) -> Mapping[str, str]:
        """What its submitter attached."""

    @property
    def create_time(self) -> datetime | None:
        """When it was submitted, in UTC."""

    @property
    def deadline(self) -> datetime | None:
        """When this attempt must have ended, in UTC; None if it may take for ever."""

    @property
    def checkpoint(self) -> bytes | None:
        """JSON that an earlier attempt stored last."""

    @property
    def steps(self) -> int:
        """Results of steps that earlier attempts stored."""


class Line(LogSink, StepLine, Protocol):
    """A handler's way to the mesh. All of it may be called from any thread and never blocks."""

    def progress(self, fraction: float, message: str, current: int, total: int) -> None:
        """Tell how far it is; only the latest counts."""

    def checkpoint(self, value: object) -> Future[None]:
        """Store a value; the future is done once it is durable.

        It may raise NotSerializable or PayloadTooLarge at once, and the future LeaseLost.
        """

    def heartbeat(self) -> None:
        """Tell that it lives."""
