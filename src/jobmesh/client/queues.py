"""Queues: how they are doing, their limits, pausing and resuming them."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from jobmesh.client.calls import Calls
from jobmesh.client.times import to_datetime
from jobmesh.durations import DurationLike, nanoseconds
from jobmesh.retry import Retry
from jobmesh.v1 import queue_pb2, queue_service_pb2

PAGE = 1000


@dataclass(frozen=True, slots=True)
class QueueInfo:
    """A queue as it stood when it was read; limits of 0 are none.

    ``depth`` has its jobs by state (scheduled, queued, held, running, retrying, cancelling).
    """

    name: str
    max_running: int
    max_depth: int
    dispatch_paused: bool
    intake_paused: bool
    default_timeout: timedelta | None
    depth: dict[str, int]
    oldest_queued_time: datetime | None
    pause_note: str
    etag: str
    proto: queue_pb2.Queue = field(repr=False, compare=False)


def queue_info(queue: queue_pb2.Queue) -> QueueInfo:
    """The message as a :class:`QueueInfo`."""
    names = [depth_field.name for depth_field in queue_pb2.QueueDepth.DESCRIPTOR.fields]
    oldest = queue.oldest_queued_time
    return QueueInfo(
        name=queue.name,
        max_running=queue.max_running,
        max_depth=queue.max_depth,
        dispatch_paused=queue.dispatch_paused,
        intake_paused=queue.intake_paused,
        default_timeout=(
            queue.default_timeout.ToTimedelta() if queue.HasField("default_timeout") else None
        ),
        depth={name: getattr(queue.depth, name) for name in names},
        oldest_queued_time=to_datetime(oldest) if queue.HasField("oldest_queued_time") else None,
        pause_note=queue.pause_note,
        etag=queue.etag,
        proto=queue,
    )


class Queues:
    """The queues of the namespace. Methods raise a JobmeshError as all calls do."""

    def __init__(self, calls: Calls) -> None:
        self._calls = calls

    async def list(self) -> AsyncGenerator[QueueInfo, None]:
        """All queues, by name."""
        request = queue_service_pb2.ListQueuesRequest(page_size=PAGE)
        while True:
            page = await self._calls.unary(self._calls.queues.ListQueues, request)
            for queue in page.queues:
                yield queue_info(queue)
            if not page.next_page_token:
                return
            request.page_token = page.next_page_token

    async def get(self, name: str) -> QueueInfo:
        """One queue, with its depth."""
        request = queue_service_pb2.GetQueueRequest(name=name)
        return queue_info(await self._calls.unary(self._calls.queues.GetQueue, request))

    async def update(self, name: str, *, etag: str = "", **settings: Any) -> QueueInfo:
        """Change settings of a queue, and make it if it is new; the queue after it.

        Args:
            etag: refuse if the settings have changed since they were read with it.
            settings: ``max_running`` and ``max_depth`` (0: no limit), ``default_timeout`` (None:
                none), ``default_retry`` (None: the mesh's), ``dispatch_paused``,
                ``intake_paused``. The others stay.

        Raises:
            TypeError: there is no such setting. ValueError: one is malformed.
        """
        queue = queue_pb2.Queue(name=name, etag=etag)
        request = queue_service_pb2.UpdateQueueRequest(queue=queue)
        for setting, value in settings.items():
            if setting not in _SETTERS:
                known = ", ".join(_SETTERS)
                raise TypeError(f"a queue has no setting {setting!r}; there are {known}")
            request.update_mask.paths.append(_SETTERS[setting](request.queue, setting, value))
        return queue_info(await self._calls.unary(self._calls.queues.UpdateQueue, request))

    async def pause(self, name: str, note: str = "") -> QueueInfo:
        """Start none of its jobs until it is resumed; what runs goes on."""
        request = queue_service_pb2.PauseQueueRequest(name=name, note=note)
        return queue_info(await self._calls.unary(self._calls.queues.PauseQueue, request))

    async def resume(self, name: str) -> QueueInfo:
        """Start its jobs again, the oldest first."""
        request = queue_service_pb2.ResumeQueueRequest(name=name)
        return queue_info(await self._calls.unary(self._calls.queues.ResumeQueue, request))


def _set_plain(queue: queue_pb2.Queue, setting: str, value: int | bool) -> str:
    setattr(queue, setting, value)
    return setting


def _set_timeout(queue: queue_pb2.Queue, setting: str, value: DurationLike | None) -> str:
    if value is not None:
        queue.default_timeout.FromNanoseconds(nanoseconds(value, setting))
    return setting


def _set_retry(queue: queue_pb2.Queue, setting: str, value: Retry | None) -> str:
    if value is not None:
        queue.default_retry_policy.CopyFrom(value.to_proto())
    return "default_retry_policy"


_SETTERS: dict[str, Callable[[queue_pb2.Queue, str, Any], str]] = {
    "max_running": _set_plain,
    "max_depth": _set_plain,
    "dispatch_paused": _set_plain,
    "intake_paused": _set_plain,
    "default_timeout": _set_timeout,
    "default_retry": _set_retry,
}
