"""Repairs that the leader asks for.

What crashes and a forgetful broker have left over. Cheap when all is well, bounded when it is not.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable
from functools import partial
from typing import TYPE_CHECKING

from jobmesh.errors import BackendUnavailable
from jobmesh.v1 import dispatch_service_pb2 as pb
from jobmesh_dispatcher.sql import load
from jobmesh_dispatcher.store.leadership import hold_epoch
from jobmesh_dispatcher.store.outbox import OutboxMessage, jobs_of
from jobmesh_dispatcher.store.release import RELEASED_AT_ONCE, release_held
from jobmesh_dispatcher.store.slots import count_running
from jobmesh_dispatcher.undelivered import Undelivered
from jobmesh_dispatcher.vanished import wake_vanished

if TYPE_CHECKING:
    from asyncpg import Record

    from jobmesh_dispatcher.after_commit import AfterCommit
    from jobmesh_dispatcher.broker import Broker
    from jobmesh_dispatcher.database import Connection, Database
    from jobmesh_dispatcher.publisher import Publisher

log = logging.getLogger(__name__)

LEFT_OVER_SECONDS = 2.0
MAX_JOBS = 5000
QUEUES_A_PASS = 100


class Reconciler:
    """One pass of repairs at a time, each of its kinds by itself.

    A broker that is down does not keep the others back.
    """

    def __init__(
        self, database: Database, broker: Broker, publisher: Publisher, after_commit: AfterCommit
    ) -> None:
        self._database = database
        self._broker = broker
        self._publisher = publisher
        self._after_commit = after_commit
        self._undelivered = Undelivered(database, broker, after_commit)

    async def run(self, epoch: int, limit: int) -> pb.ReconcileResponse:
        """Repair.

        How much of what. Raises `LeadershipLost`, or `BackendUnavailable` if the database is down.
        """
        limit = min(limit or MAX_JOBS, MAX_JOBS)
        async with self._database.transaction() as connection:
            await hold_epoch(connection, epoch)
        return pb.ReconcileResponse(
            outbox_published=await self._unless_down(self._relay(limit)),
            # Before what vanished: the jobs of a message that was given up look the same, and are
            # to be charged before they are woken.
            dead_lettered=await self._unless_down(self._undelivered.run(epoch)),
            wakeups_published=await self._unless_down(self._wake(epoch, limit)),
            released=await self._release(epoch),
            slots_corrected=await self._recount(epoch),
        )

    async def _unless_down(self, repair: Awaitable[int]) -> int:
        try:
            return await repair
        except BackendUnavailable as error:
            log.warning("not repaired: %s", error)
            return 0

    async def _relay(self, limit: int) -> int:
        """Publish what other dispatchers committed and did not publish."""
        if not self._broker.connected:
            return 0
        rows = await self._database.fetch(load("leftover_outbox"), LEFT_OVER_SECONDS, limit)
        messages = [OutboxMessage(row["id"], row["subject"], row["body"]) for row in rows]
        return await self._publisher.publish(messages) if messages else 0

    async def _wake(self, epoch: int, limit: int) -> int:
        messages = await wake_vanished(self._database, self._broker, epoch, limit)
        self._after_commit.changed([], messages)
        return jobs_of(messages)

    async def _release(self, epoch: int) -> int:
        """Release jobs whose hold has ended.

        A crash came between, or there were too many to release at once.
        """
        released = 0
        for row in (await self._database.fetch(load("releasable_queues")))[:QUEUES_A_PASS]:
            messages = await self._database.run(partial(_release, epoch=epoch, row=row))
            self._after_commit.changed([], messages)
            released += jobs_of(messages)
        return released

    async def _recount(self, epoch: int) -> int:
        """Put right the counts of limited queues that do not match their jobs."""
        rows = await self._database.fetch(load("wrong_slots"))
        for row in rows[:QUEUES_A_PASS]:
            await self._database.run(partial(_recount, epoch=epoch, row=row))
        return len(rows)


async def _release(connection: Connection, *, epoch: int, row: Record) -> list[OutboxMessage]:
    await hold_epoch(connection, epoch)
    room = min(row["room"], RELEASED_AT_ONCE)
    return await release_held(connection, row["namespace"], row["name"], row["reason"], room)


async def _recount(connection: Connection, *, epoch: int, row: Record) -> None:
    await hold_epoch(connection, epoch)
    await connection.fetch(load("lock_queue"), row["namespace"], row["queue"])
    running = await count_running(connection, row["namespace"], row["queue"])
    log.error("the count of running jobs of queue %s was wrong; it is %d", row["queue"], running)
