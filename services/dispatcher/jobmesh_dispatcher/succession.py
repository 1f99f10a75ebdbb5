"""Runners' room for the jobs that take over slots of limited queues, as those before them end.

By way of the broker the next job of a queue begins some wake-up later, and a queue that is limited
to a few does no more than so many jobs a round trip; so a slot goes on within the transaction that
ends the job before (see `store.hand_over`).

* Jobs of other queues may wait for room, too: only runners that have idle slots beyond take part,
  so that a limited queue never keeps what it has got.
* The room is taken while the transaction is under way, so that no claim gives it away meanwhile.
* The commit's answer is lost, or comes late: the jobs are RUNNING and their runner does not know;
  the session's slow comparison queues them again.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from jobmesh_dispatcher.claiming import Seat
    from jobmesh_dispatcher.claims import Claims
    from jobmesh_dispatcher.lease import Lease
    from jobmesh_dispatcher.roster import Roster
    from jobmesh_dispatcher.store.claim import Claimed


class Succession:
    """Keeps room for successors, and sends them once they are claimed."""

    def __init__(self, roster: Roster, claims: Claims) -> None:
        self._roster = roster
        self._claims = claims

    @contextmanager
    def seats(self, ending: Sequence[Lease]) -> Iterator[Sequence[Seat]]:
        """Seats for the successors of jobs that end; theirs until the end of the block."""
        most = sum(lease.counted for lease in ending)
        roomy = [a for a in self._roster if a.idle > most] if most else []
        seats = [attachment.seat_of(most) for attachment in roomy]
        with ExitStack() as stack:
            if roomy:
                stack.callback(self._roster.changed)  # what was not used is room again
            for attachment in roomy:
                stack.enter_context(attachment.reserve(most))
            yield seats

    async def begin(self, handed: Claimed, seats: Sequence[Seat], since: float) -> None:
        """Send the jobs that took over; `since` is when their transaction began, monotonic."""
        if seats or handed.messages:
            await self._claims.begin(handed, seats, since)
