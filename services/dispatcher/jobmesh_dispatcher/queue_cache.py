"""What this dispatcher knows of queues: whether they take jobs, their defaults, where to pull.

Read again each second, and at once after a nudge. It decides nothing that must be exact:
`max_running` and pauses of dispatch are read by each claim itself; the depth may be overshot by
what is submitted in a second.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from google.protobuf.duration_pb2 import Duration

from jobmesh.errors import JobmeshError, QueueFull, WrongState
from jobmesh.server.tasks import Periodic
from jobmesh.v1.job_pb2 import JobSpec, RetryPolicy
from jobmesh_dispatcher.queue_token import queue_token
from jobmesh_dispatcher.sql import load

if TYPE_CHECKING:
    from asyncpg import Record

    from jobmesh_dispatcher.database import Database
    from jobmesh_dispatcher.nudges import Nudges
    from jobmesh_dispatcher.submission import Submission

REFRESH_SECONDS = 1.0
Name = tuple[str, str]  # namespace, queue


@dataclass(slots=True)
class KnownQueue:
    """A queue as it was read last. `priorities` has one bit for each that was ever used."""

    token: str
    priorities: int
    limited_depth: bool
    retry_policy: RetryPolicy | None
    timeout: Duration | None
    dispatch_paused: bool
    intake_paused: bool
    max_depth: int
    full: bool = False


class QueueCache:
    """The queues of the mesh.

    `on_channels` is told the (token, priority) pairs that can have wake-ups.
    """

    def __init__(self, database: Database, nudges: Nudges) -> None:
        self._database = database
        self._nudges = nudges
        self._queues: dict[Name, KnownQueue] = {}
        self._making = asyncio.Lock()
        self._refresher = Periodic("queues", REFRESH_SECONDS, self.refresh, max_backoff=2.0)
        self.on_channels: Callable[[list[tuple[str, int]]], None] = lambda channels: None
        nudges.on_queue = self._refresher.wake

    async def start(self) -> None:
        """Begin to read."""
        await self._refresher.start()

    async def stop(self) -> None:
        """Stop reading."""
        await self._refresher.stop()

    async def refresh(self) -> None:
        """Read all queues again."""
        rows = await self._database.fetch(load("list_queues"))
        queues = {(row["namespace"], row["name"]): _known(row) for row in rows}
        if any(queue.limited_depth for queue in queues.values()):
            for row in await self._database.fetch(load("full_queues")):
                queues[row["namespace"], row["name"]].full = True
        self._queues = queues
        self._tell_channels()

    def _tell_channels(self) -> None:
        self.on_channels(
            [
                (queue.token, priority)
                for queue in self._queues.values()
                if not queue.dispatch_paused
                for priority in range(10)
                if queue.priorities >> priority & 1
            ]
        )

    def changed(self, namespace: str, name: str) -> None:
        """A queue was changed here: read it again, and tell the others."""
        self._refresher.wake()
        self._nudges.queue(namespace, name)

    async def use(self, submissions: Sequence[Submission]) -> None:
        """Make queues, and note priorities, that these submissions are the first to use."""
        if not self._missing(submissions):
            return
        # One at a time: of a crowd that comes to a new queue together, one makes it.
        async with self._making:
            if missing := self._missing(submissions):
                await self._make(missing)

    def _missing(self, submissions: Sequence[Submission]) -> dict[Name, int]:
        missing: dict[Name, int] = defaultdict(int)
        for submission in submissions:
            name = (submission.namespace, submission.spec.queue)
            bit = 1 << submission.spec.priority
            queue = self._queues.get(name)
            if queue is None or not queue.priorities & bit:
                missing[name] |= bit
        return missing

    async def _make(self, missing: dict[Name, int]) -> None:
        names = sorted(missing)
        await self._database.fetch(
            load("use_queues"),
            [namespace for namespace, _ in names],
            [name for _, name in names],
            [queue_token(*name) for name in names],
            [missing[name] for name in names],
        )
        await self.refresh()
        for name in names:
            self._nudges.queue(*name)

    def refusal(self, submission: Submission) -> JobmeshError | None:
        """Why a queue takes no more jobs now; None if it does."""
        queue = self._queues.get((submission.namespace, submission.spec.queue))
        if queue is None:
            return None
        if queue.intake_paused:
            return WrongState(
                "INTAKE_PAUSED",
                f"queue {submission.spec.queue} takes no jobs now: its intake is paused",
            )
        if queue.full:
            return QueueFull(submission.spec.queue, queue.max_depth)
        return None

    def fill_in(self, namespace: str, spec: JobSpec) -> None:
        """The queue's defaults, where the job brings none of its own."""
        queue = self._queues.get((namespace, spec.queue))
        if queue is None:
            return
        if queue.retry_policy is not None:
            own = RetryPolicy()
            own.CopyFrom(spec.retry_policy)
            spec.retry_policy.CopyFrom(queue.retry_policy)
            if own.non_retryable_error_types:
                spec.retry_policy.ClearField("non_retryable_error_types")
            spec.retry_policy.MergeFrom(own)
        if queue.timeout is not None and not spec.HasField("timeout"):
            spec.timeout.CopyFrom(queue.timeout)


def _known(row: Record) -> KnownQueue:
    policy, timeout = row["default_retry_policy"], row["default_timeout"]
    return KnownQueue(
        token=row["token"],
        priorities=row["priorities"],
        limited_depth=row["max_depth"] is not None,
        retry_policy=RetryPolicy.FromString(policy) if policy else None,
        timeout=Duration.FromString(timeout) if timeout else None,
        dispatch_paused=row["dispatch_paused"],
        intake_paused=row["intake_paused"],
        max_depth=row["max_depth"] or 0,
    )
