"""The settings of a queue: from its row to the message, and what an update makes of them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from google.protobuf.duration_pb2 import Duration

from jobmesh.errors import InvalidField
from jobmesh.v1.job_pb2 import RetryPolicy
from jobmesh.v1.queue_pb2 import Queue
from jobmesh_dispatcher.rows import timestamp

if TYPE_CHECKING:
    from collections.abc import Sequence

    from asyncpg import Record

QUEUE_PAUSED = "QUEUE_PAUSED"
MAX_RUNNING = "MAX_RUNNING"


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueSettings:
    """What can be set of a queue, as it is stored: None is no limit, empty bytes nothing set."""

    max_running: int | None = None
    max_depth: int | None = None
    default_retry_policy: bytes = b""
    default_timeout: bytes = b""
    dispatch_paused: bool = False
    intake_paused: bool = False
    pause_note: str = ""

    @classmethod
    def from_row(cls, row: Record) -> QueueSettings:
        """Of a row of `queues`."""
        return cls(**{name: row[name] for name in cls.__slots__})

    def changed(self, wanted: Queue, paths: Sequence[str]) -> QueueSettings:
        """These settings with those that `paths` name taken from `wanted`.

        :raises InvalidField: a path names no setting.
        """
        settings = replace(self, **{path: _stored(wanted, path) for path in paths})
        return settings if settings.dispatch_paused else replace(settings, pause_note="")

    def holds_ended_by(self, after: QueueSettings) -> list[str]:
        """The hold reasons under which no job, or fewer jobs, need to wait now that `after` holds.

        Also those that did not hold before, so that a call which is repeated ends what a first one
        may have left.
        """
        ended = []
        if not after.dispatch_paused:
            ended.append(QUEUE_PAUSED)
        if after.max_running is None or after.max_running > (self.max_running or after.max_running):
            ended.append(MAX_RUNNING)
        return ended


def update_paths(wanted: Queue, mask: Sequence[str]) -> list[str]:
    """The settings that an update means: those of its mask, or all that are set."""
    if list(mask) == ["*"]:
        return list(_SETTABLE)
    return list(mask) or [f.name for f, _ in wanted.ListFields() if f.name in _SETTABLE]


def _stored(wanted: Queue, path: str) -> Any:
    if path not in _SETTABLE:
        raise InvalidField("update_mask", f"{path} is no setting that can be changed")
    value = getattr(wanted, path)
    if path.startswith("max_"):
        return value or None
    return value.SerializeToString() if path.startswith("default_") else value


_SETTABLE = tuple(name for name in QueueSettings.__slots__ if name != "pause_note")


def queue_from_row(row: Record) -> Queue:
    """The queue, without what it holds."""
    queue = Queue(
        name=row["name"],
        max_running=row["max_running"] or 0,
        max_depth=row["max_depth"] or 0,
        dispatch_paused=row["dispatch_paused"],
        intake_paused=row["intake_paused"],
        pause_note=row["pause_note"],
        etag=etag(row),
        create_time=timestamp(row["create_time"]),
    )
    if row["default_retry_policy"]:
        queue.default_retry_policy.CopyFrom(RetryPolicy.FromString(row["default_retry_policy"]))
    if row["default_timeout"]:
        queue.default_timeout.CopyFrom(Duration.FromString(row["default_timeout"]))
    return queue


def etag(row: Record) -> str:
    """Changes with each update of the settings."""
    return str(row["revision"])
