"""Sessions attached to this dispatcher: how they begin, last and end.

* Attach commits first, under a new attachment, then compares what the runner says it holds with the
  table: what the runner lacks is queued again, what it should not have it is told to stop.
* A clean "bye" ends the session at once. A broken stream ends it after a grace, unless the runner
  attached again, here or elsewhere; or could not, since the database was away.
* Each second the handlers that are to stop are told again, until they have reported; and jobs whose
  claim was committed without an answer are taken back. More seldom, or when somebody says so,
  runners are told of claims that are theirs no longer.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING
from uuid import UUID

from jobmesh.errors import BackendUnavailable, Draining, SessionEnded, Unavailable
from jobmesh.server.metrics import counter
from jobmesh.server.tasks import Periodic, TaskOwner
from jobmesh.v1 import runner_service_pb2 as pb
from jobmesh.v1.job_pb2 import Reconnect
from jobmesh_dispatcher.attachment import Attachment
from jobmesh_dispatcher.lease import Lease
from jobmesh_dispatcher.sql import load
from jobmesh_dispatcher.store.finish import settled
from jobmesh_dispatcher.store.sessions import TakenBack, end_session, take_back_lacking

if TYPE_CHECKING:
    from asyncpg import Record

    from jobmesh.v1.runner_service_pb2 import Hello
    from jobmesh_dispatcher.after_commit import AfterCommit
    from jobmesh_dispatcher.database import Database
    from jobmesh_dispatcher.roster import Roster

log = logging.getLogger(__name__)

REPEAT_SECONDS = 1.0
LOST_SECONDS = 5.0  # it costs something a job
ENDED = counter(
    "jobmesh_sessions_ended_total", "Sessions ended by this dispatcher, by reason.", ["reason"]
)
TAKEN = counter("jobmesh_jobs_taken_back_total", "Jobs taken back from runners.")


class Sessions:
    """The sessions of one dispatcher."""

    def __init__(
        self,
        database: Database,
        roster: Roster,
        after_commit: AfterCommit,
        *,
        dispatcher_id: UUID,
        grace_seconds: float,
    ) -> None:
        self._database = database
        self._roster = roster
        self._after_commit = after_commit
        self._dispatcher_id = dispatcher_id
        self._grace = grace_seconds
        self._owner = TaskOwner()
        self._repeater = Periodic("sessions", REPEAT_SECONDS, self.repeat)
        self._draining = False
        self._look_for_lost_at = 0.0  # monotonic
        after_commit.nudges.on_cancel = lambda session_id: self.tell_cancelled()

    async def start(self) -> None:
        """Begin to repeat."""
        await self._repeater.start()

    async def stop(self) -> None:
        """Leave sessions as they are: their runners attach elsewhere, or the leader ends them."""
        await self._repeater.stop()
        await self._owner.stop()

    def drain(self) -> None:
        """Send all runners to other dispatchers, with what they run."""
        self._draining = True
        for attachment in self._roster:
            attachment.draining = True
            attachment.send(pb.WorkResponse(reconnect=Reconnect()))
            attachment.close()

    async def attach(self, hello: Hello) -> Attachment:
        """Begin an attachment.

        Raises `SessionEnded` if its session has ended, `BackendUnavailable`.
        """
        attachment = Attachment(hello)
        known = await self._database.fetch(
            load("upsert_session"),
            attachment.session_id,
            attachment.id,
            attachment.runner_id,
            attachment.namespace,
            self._dispatcher_id,
            attachment.slots,
            sorted(attachment.types),
            sorted(attachment.queues or ()),
            attachment.version,
        )
        if not known:
            raise SessionEnded(str(attachment.session_id))
        await self._compare(attachment, {(UUID(x.job_id), x.attempt) for x in hello.held})
        if self._draining:
            raise Draining  # it began meanwhile: nobody would tell this runner to go
        self._roster.add(attachment)
        return attachment

    async def _compare(self, attachment: Attachment, held: set[tuple[UUID, int]]) -> None:
        """Bring what the runner holds and what the table says together."""
        rows = await self._database.fetch(load("session_jobs"), attachment.session_id)
        known = {(row["job_id"], row["attempt"]) for row in rows}
        if lacking := [job_id for job_id, attempt in known - held]:
            log.info("%d job(s) never reached runner %s", len(lacking), attachment.runner_id)
            if not await self._take_back(attachment, lacking):
                # Not SESSION_ENDED: what the runner does elsewhere by now goes on.
                raise Unavailable("the session was attached again meanwhile")
        for row in rows:
            if (row["job_id"], row["attempt"]) in held:
                attachment.hold(_lease(row))
        async with self._database.connection() as connection:
            recorded = await settled(connection, list(held - known))
        if lost := held - known - recorded:
            _tell_lost(attachment, lost)

    async def end(self, attachment: Attachment) -> None:
        """The stream is over: end the session now after a bye, else after the grace."""
        self._roster.remove(attachment)
        if attachment.bye:
            await self._end(attachment, "bye", crashed=False)
        elif not self._draining:
            self._owner.spawn(f"grace-{attachment.runner_id}", self._end_after_grace(attachment))

    @property
    def graces(self) -> int:
        """Streams that broke and may still be replaced by others."""
        return len(self._owner)

    async def _end_after_grace(self, attachment: Attachment) -> None:
        await asyncio.sleep(self._grace)  # the grace itself: nothing else ends it
        try:
            await self._end(attachment, "stream broken", crashed=True)
        except BackendUnavailable:
            # The runner could attach nowhere else. The leader, once the database is back, gives it
            # a whole lease to do so.
            log.warning("session of %s is left to the leader", attachment.runner_id)

    async def _end(self, attachment: Attachment, reason: str, *, crashed: bool) -> None:
        taken = await self._database.run(
            lambda c: end_session(c, attachment.session_id, attachment.id, reason, crashed=crashed)
        )
        if taken.ended:
            log.info(
                "session of %s ended: %s, %d job(s) taken back",
                attachment.runner_id,
                reason,
                len(taken.rows),
            )
            ENDED.labels(reason).inc()
        self.taken(taken)

    async def _take_back(self, attachment: Attachment, job_ids: Sequence[UUID]) -> bool:
        """Take back what the runner lacks; False if its session is not attached here any more."""
        session_id, attachment_id = attachment.session_id, attachment.id
        taken = await self._database.run(
            lambda c: take_back_lacking(c, session_id, attachment_id, job_ids)
        )
        if taken is None:
            return False
        self.taken(taken)
        return True

    def taken(self, taken: TakenBack) -> None:
        """Follow up on jobs that were taken back."""
        TAKEN.inc(len(taken.rows))
        self._after_commit.changed(taken.rows, taken.messages)

    def tell_cancelled(self) -> None:
        """A handler has to be stopped: do not wait for the next repetition."""
        self._look_for_lost_at = 0.0
        self._repeater.wake()

    async def repeat(self) -> None:
        """Tell of handlers to be stopped, and take back what runners should have and have not."""
        attachments = {attachment.session_id: attachment for attachment in self._roster}
        if not attachments:
            return
        for row in await self._database.fetch(load("cancelling_jobs"), list(attachments)):
            _cancel(attachments[row["session_id"]], row)
        await self._clear_suspects(attachments.values())
        await self._tell_lost(attachments)
        held = [job_id for a in attachments.values() for job_id in (*a.leases, *a.reporting)]
        for row in await self._database.fetch(load("unknown_jobs"), list(attachments), held):
            # Looked up again: a report may have been recorded, and a claim assigned, since `held`
            # was read.
            attachment = attachments[row["session_id"]]
            unknown = [
                j
                for j in row["job_ids"]
                if j not in attachment.leases and j not in attachment.reporting
            ]
            if unknown:
                await self._take_back(attachment, unknown)

    async def _tell_lost(self, attachments: Mapping[UUID, Attachment]) -> None:
        """Have handlers stopped whose jobs were ended without them."""
        now = time.monotonic()
        leases = [lease for a in attachments.values() for lease in a.leases.values()]
        if now < self._look_for_lost_at or not leases:
            return
        self._look_for_lost_at = now + LOST_SECONDS
        columns = [(x.job_id, x.attempt, x.session_id) for x in leases]
        for row in await self._database.fetch(
            load("lost_leases"), *map(list, zip(*columns, strict=True))
        ):
            attachment = attachments[row["session_id"]]
            if attachment.lease_of(row["job_id"], row["attempt"]) is not None:  # nor reported since
                del attachment.leases[row["job_id"]]
                _tell_lost(attachment, [(row["job_id"], row["attempt"])])
                self._roster.changed()

    async def _clear_suspects(self, attachments: Iterable[Attachment]) -> None:
        """Clear suspects that have run for long enough: their runners may have other jobs again."""
        suspects = {lease.key: lease for a in attachments for lease in a.suspects()}
        if not suspects:
            return
        leases = sorted(suspects.values(), key=lambda lease: lease.job_id)
        columns = (
            [x.job_id for x in leases],
            [x.attempt for x in leases],
            [x.session_id for x in leases],
        )
        for row in await self._database.fetch(load("clear_suspects"), *columns):
            suspects[row["job_id"], row["attempt"]].suspect = 0
            self._roster.changed()


def _lease(row: Record) -> Lease:
    lease = Lease.from_row(row)
    lease.started = row["start_time"] is not None
    return lease


def _cancel(attachment: Attachment, row: Record) -> None:
    lease = attachment.lease_of(row["job_id"], row["attempt"])
    if lease is None:
        return
    # No grace: nobody asked for one, and so the runner's own setting counts.
    cancellation = pb.Cancellation(
        lease=pb.Lease(job_id=str(lease.job_id), attempt=lease.attempt), reason=row["cancel_reason"]
    )
    attachment.send(pb.WorkResponse(cancellations=pb.Cancellations(cancellations=[cancellation])))


def _tell_lost(attachment: Attachment, lost: Iterable[tuple[UUID, int]]) -> None:
    leases = [pb.Lease(job_id=str(job_id), attempt=attempt) for job_id, attempt in lost]
    attachment.send(pb.WorkResponse(lost=pb.LostLeases(leases=leases)))
