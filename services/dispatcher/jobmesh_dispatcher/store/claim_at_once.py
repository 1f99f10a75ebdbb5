"""The claim of jobs that nothing stands in the way of, in one round trip.

Guarantee: that of `claim`, for what it takes; the rest is as it was. It takes the same locks in the
same order, but for a queue's slots: it takes no job of a limited queue. A wait for a lock makes it
look again at the row that it waited for: who ended a session, limited a queue or took a job in the
meantime is seen. One that comes later waits for its commit.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING
from uuid import UUID

from jobmesh_dispatcher.sql import load
from jobmesh_dispatcher.store.claim import CLAIM_BYTES, Claimed

if TYPE_CHECKING:
    from jobmesh_dispatcher.claiming import Seat
    from jobmesh_dispatcher.database import Connection


async def claim_at_once(
    connection: Connection, job_ids: Sequence[UUID], tokens: Sequence[str], seats: Sequence[Seat]
) -> Claimed:
    """Claim of these jobs what can be. `seats` are alike, and one for each job."""
    attachments = {seat.session_id: seat.attachment for seat in seats}
    alike = seats[0]
    rows = await connection.fetch(
        load("claim_at_once"),
        list(job_ids),
        [seat.session_id for seat in seats],
        [seat.runner_id for seat in seats],
        list(attachments),
        list(attachments.values()),
        list(tokens),
        alike.namespace,
        list(alike.types),
        None if alike.queues is None else list(alike.queues),
        CLAIM_BYTES,
    )
    return Claimed(rows, looked_at=len(rows))
