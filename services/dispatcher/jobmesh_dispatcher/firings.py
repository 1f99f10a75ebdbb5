"""Firing schedules for the leader, and for callers who ask for it."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING
from uuid import UUID

from jobmesh.errors import InvalidField
from jobmesh.server.metrics import counter
from jobmesh.v1.dispatch_service_pb2 import FireSchedulesRequest, FiringAnswer
from jobmesh.v1.schedule_pb2 import Firing, FiringOutcome
from jobmesh_dispatcher import failpoints
from jobmesh_dispatcher.database import REFUSED
from jobmesh_dispatcher.firing_orders import ON_REQUEST, Order, Template, read_orders
from jobmesh_dispatcher.sql import load
from jobmesh_dispatcher.store.fire import Fired, Prepared, fire
from jobmesh_dispatcher.store.fire_buffered import refuse, release
from jobmesh_dispatcher.store.leadership import hold_epoch

if TYPE_CHECKING:
    from asyncpg import Record

    from jobmesh_dispatcher.after_commit import AfterCommit
    from jobmesh_dispatcher.database import Connection, Database
    from jobmesh_dispatcher.queue_cache import QueueCache

log = logging.getLogger(__name__)

MAX_ORDERS = 1000
FIRST = UUID(int=0)
CANNOT_BE_STORED = InvalidField("job", "cannot be stored")
FIRINGS = counter(
    "jobmesh_firings_total", "Firings of schedules answered, by outcome.", ("outcome",)
)


class Firings:
    """Carries orders out. ``stop`` tells a job's runner, by its session, to stop the handler."""

    def __init__(
        self,
        database: Database,
        queues: QueueCache,
        after_commit: AfterCommit,
        stop: Callable[[UUID, UUID], None],
    ) -> None:
        self._database = database
        self._queues = queues
        self._after_commit = after_commit
        self._stop = stop
        self._behind = FIRST

    async def fire(self, request: FireSchedulesRequest) -> list[FiringAnswer]:
        """Fire; an answer without a firing is an order that was refused."""
        orders = read_orders(request.orders)
        _check(request.epoch, orders)
        templates = await self._templates({order.uid for order in orders})
        prepared = {
            id(order): self._prepare(order, templates[order.uid])
            for order in orders
            if order.uid in templates
        }
        await self._queues.use([p.submission for p in prepared.values() if not p.order.missed])
        answers = await self._carry_out(request.epoch, list(prepared.values()))
        found = dict(zip(prepared, answers, strict=True))
        return [FiringAnswer(firing=found.get(id(order))) for order in orders]

    async def release(self, epoch: int, limit: int) -> int:
        """Fire what waited for jobs that have ended; how many.

        A full look goes on behind its last schedule the next time: what waits on, as its queue
        takes no jobs, keeps no other from its turn.
        """
        waiting = await self._database.fetch(load("releasable_firings"), self._behind, limit)
        self._behind = waiting[-1]["schedule_uid"] if len(waiting) == limit else FIRST
        # Mostly none, as a leader asks often; nor has one that was deposed anything to do then.
        return await self._release(epoch, waiting) if waiting else 0

    async def _release(self, epoch: int, waiting: Sequence[Record]) -> int:
        """All in one transaction; in two halves if the database refuses what is in them."""

        async def act(connection: Connection) -> Fired:
            await hold_epoch(connection, epoch)
            return await release(connection, waiting, self._prepare)

        try:
            fired = await self._database.run(act)
        except REFUSED as error:
            if len(waiting) == 1:
                return await self._refuse(epoch, waiting[0], error)
            middle = len(waiting) // 2
            first = await self._release(epoch, waiting[:middle])
            return first + await self._release(epoch, waiting[middle:])
        self._tell(fired)
        return fired.submitted

    async def _refuse(self, epoch: int, waiting: Record, error: Exception) -> int:
        async def act(connection: Connection) -> None:
            await hold_epoch(connection, epoch)
            await refuse(connection, waiting, CANNOT_BE_STORED.message)

        log.warning("a firing that waited was refused by postgresql: %s", type(error).__name__)
        await self._database.run(act)
        return 0

    async def _templates(self, uids: Iterable[UUID]) -> dict[UUID, Template]:
        rows = await self._database.fetch(load("schedules_to_fire"), sorted(uids))
        return {row["uid"]: Template.from_row(row) for row in rows}

    def _prepare(self, order: Order, template: Template) -> Prepared:
        submission = template.submission(order.job_id, order.fire_time)
        refusal = self._queues.refusal(submission)
        self._queues.fill_in(submission.namespace, submission.spec)
        return Prepared(order, template, submission, refusal)

    async def _carry_out(self, epoch: int, prepared: Sequence[Prepared]) -> list[Firing | None]:
        """All in one transaction; in two halves if the database refuses what is in them."""

        async def act(connection: Connection) -> Fired:
            if epoch:
                await hold_epoch(connection, epoch)
            return await fire(connection, prepared)

        if not prepared:
            return []
        try:
            fired = await self._database.run(act)
        except REFUSED as error:
            if len(prepared) == 1:
                if prepared[0].refusal is not None:
                    raise
                log.warning("a firing was refused by postgresql: %s", type(error).__name__)
                refused = prepared[0]._replace(refusal=CANNOT_BE_STORED)
                return await self._carry_out(epoch, [refused])
            middle = len(prepared) // 2
            return [
                *await self._carry_out(epoch, prepared[:middle]),
                *await self._carry_out(epoch, prepared[middle:]),
            ]
        await failpoints.reach("fire.after_commit")
        self._tell(fired)
        return fired.answers

    def _tell(self, fired: Fired) -> None:
        self._after_commit.changed(fired.ended.rows, [*fired.ended.messages, *fired.messages])
        for job_id, session_id in fired.ended.stops:
            self._stop(job_id, session_id)
        for answer in fired.answers:
            if answer is not None:
                name = FiringOutcome.Name(answer.outcome).removeprefix("FIRING_OUTCOME_")
                FIRINGS.labels(name.lower()).inc()
        for schedule_id in fired.paused:
            log.warning("schedule %s paused itself: its firings fail", schedule_id)


def _check(epoch: int, orders: Sequence[Order]) -> None:
    if len(orders) > MAX_ORDERS:
        raise InvalidField("orders", f"are {len(orders)}, at most {MAX_ORDERS} are taken at once")
    if not epoch and any(order.kind not in ON_REQUEST for order in orders):
        raise InvalidField("epoch", "is required for what no caller asked for")
