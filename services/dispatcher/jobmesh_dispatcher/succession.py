"""Runners' room for the jobs that take over slots of limited queues, as those before them end.

By way of the broker the next job of a queue begins some wake-up later, and a queue that is limited
to a few does no more than so many jobs a round trip; so a slot goes on within the transaction that
ends the job before (see `store.hand_over`).

* Jobs of other queues may wait for room, too: one idle slot of each runner is left to them, so that
  a limited queue never keeps what it has got.
* Runners of other dispatchers may be idle: every eighth time slots are given back to all.
* The room is taken while the transaction is under way, so that no claim gives it away meanwhile.
* The commit's answer is lost, or comes late: the jobs are RUNNING and their runner does not know;
  the session's slow comparison queues them again.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from jobmesh_dispatcher.claiming import Candidate

if TYPE_CHECKING:
    from jobmesh_dispatcher.claiming import Seat
    from jobmesh_dispatcher.claims import Claims
    from jobmesh_dispatcher.lease import Lease
    from jobmesh_dispatcher.roster import Roster
    from jobmesh_dispatcher.store.claim import Claimed


SHARED = 8


class Succession:
    """Keeps room for successors, and sends them once they are claimed."""

    def __init__(self, roster: Roster, claims: Claims) -> None:
        self._roster = roster
        self._claims = claims
        self._turn = 0

    @contextmanager
    def seats(self, ending: Sequence[Lease]) -> Iterator[Sequence[Seat]]:
        """Seats for the successors of jobs that end; theirs until the end of the block."""
        seats = self._choose([lease for lease in ending if lease.counted])
        with self._roster.lend({seat.session_id: seat.free for seat in seats}):
            yield seats

    def _choose(self, ending: Sequence[Lease]) -> list[Seat]:
        """As many seats as there are successors, with runners that know jobs like those before."""
        self._turn += bool(ending)
        if not ending or self._turn % SHARED == 0:
            return []
        kinds = {(x.namespace, x.queue, x.type): x for x in ending}
        likes = [Candidate(x.job_id, *kind, x.priority) for kind, x in kinds.items()]
        chosen: list[Seat] = []
        wanted = len(ending)
        for attachment in sorted(self._roster, key=lambda a: -a.idle):
            seat = attachment.seat_of(min(wanted, attachment.idle - 1))
            if seat.free > 0 and any(map(seat.fits, likes)):
                chosen.append(seat)
                wanted -= seat.free
        return chosen

    async def begin(self, handed: Claimed, seats: Sequence[Seat], since: float) -> None:
        """Send the jobs that took over; `since` is when their transaction began, monotonic."""
        if handed.looked_at or handed.messages:
            await self._claims.begin(handed, seats, since)
