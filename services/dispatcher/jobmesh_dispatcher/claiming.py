"""Which of the jobs at hand start, on which runner, and why the others do not.

The decision of a claim, apart from its I/O.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from heapq import heapify, heappop, heappush
from typing import NamedTuple
from uuid import UUID

NO_RUNNER = "NO_RUNNER"
MAX_RUNNING = "MAX_RUNNING"
QUEUE_PAUSED = "QUEUE_PAUSED"


class Candidate(NamedTuple):
    """A job that is QUEUED, and locked. `alone`: to be given a runner that has nothing else."""

    job_id: UUID
    namespace: str
    queue: str
    type: str
    priority: int
    alone: bool = False


@dataclass(slots=True)
class Seat:
    """What an attached runner can still take. `queues` of None means all of them.

    One that is set aside takes, once it has nothing else, only a job that is to be `alone`. One
    that has such a job has no room until that one is cleared.
    """

    session_id: UUID
    attachment: UUID
    runner_id: str
    namespace: str
    types: frozenset[str]
    queues: frozenset[str] | None
    slots: int
    free: int
    running: int
    set_aside: bool = False

    def fits(self, job: Candidate) -> bool:
        """Whether the runner would run this job, if it had room."""
        return (
            job.type in self.types
            and job.namespace == self.namespace
            and (self.queues is None or job.queue in self.queues)
        )


class QueueLimit(NamedTuple):
    """A queue's settings as the claim holds them. `free` of None means no limit."""

    paused: bool
    free: int | None


@dataclass(slots=True)
class Decision:
    """Claims are (job, seat, counted in the queue's slots); parks are (job, hold reason)."""

    claims: list[tuple[Candidate, Seat, bool]] = field(default_factory=list)
    parks: list[tuple[Candidate, str]] = field(default_factory=list)


def decide(
    candidates: Iterable[Candidate],
    queues: Mapping[tuple[str, str], QueueLimit],
    seats: Sequence[Seat],
) -> Decision:
    """Give each candidate, in order, to the least loaded runner that fits; park the others.

    Seats lose the room that is given away. A queue never gets more claims than it is free to.
    """
    decision = Decision()
    free = {name: limit.free for name, limit in queues.items()}
    for job in candidates:
        name = (job.namespace, job.queue)
        limit = queues.get(name, QueueLimit(False, None))
        left = free.get(name)
        if limit.paused:
            decision.parks.append((job, QUEUE_PAUSED))
        elif left is not None and left <= 0:
            decision.parks.append((job, MAX_RUNNING))
        elif (seat := least_loaded(job, seats)) is None:
            decision.parks.append((job, NO_RUNNER))
        else:
            seat.free = 0 if job.alone else seat.free - 1
            seat.running += 1
            if left is not None:
                free[name] = left - 1
            decision.claims.append((job, seat, left is not None))
    return decision


def within_bytes(sizes: Sequence[int], limit: int) -> int:
    """How many of the first make one claim: up to that which reaches the limit."""
    total = 0
    for number, size in enumerate(sizes):
        if total >= limit:
            return number
        total += size
    return len(sizes)


def least_loaded(job: Candidate, seats: Sequence[Seat]) -> Seat | None:
    """The runner that fits and has the smallest share of its slots taken; the first of equals."""
    best: Seat | None = None
    for seat in seats:
        if _has_room(seat, job) and seat.fits(job) and (best is None or _load(seat) < _load(best)):
            best = seat
    return best


def spread_out(jobs: int, seats: Sequence[Seat]) -> list[Seat]:
    """A runner for each of so many jobs of which nothing is known yet: the least loaded, in turn.

    None at all if it could matter which job goes to which: the runners differ, or have not room for
    all of them.
    """
    usable = [seat for seat in seats if seat.free > 0 and not seat.set_aside]
    kinds = {(seat.namespace, seat.types, seat.queues) for seat in usable}
    if len(kinds) != 1 or sum(seat.free for seat in usable) < jobs:
        return []
    turns = [(_load(seat), number, 0) for number, seat in enumerate(usable)]
    heapify(turns)
    dealt: list[Seat] = []
    while len(dealt) < jobs:
        _, number, given = heappop(turns)
        seat = usable[number]
        dealt.append(seat)
        given += 1
        if given < seat.free:
            heappush(turns, ((seat.running + given) / seat.slots, number, given))
    return dealt


def _has_room(seat: Seat, job: Candidate) -> bool:
    if job.alone:
        return seat.free > 0 and seat.running == 0
    return seat.free > 0 and not seat.set_aside


def idle_seat(job: Candidate, seats: Iterable[Seat]) -> Seat | None:
    """A runner that fits and has nothing at all."""
    return next((seat for seat in seats if _has_room(seat, job) and seat.fits(job)), None)


def set_aside(lonely: Iterable[Candidate], seats: Sequence[Seat]) -> set[UUID]:
    """Sessions whose runners are given nothing more, so that each of these jobs gets one to itself.

    The least loaded that fits, one for each job; none for a job that an idle one fits.
    """
    chosen: set[UUID] = set()
    for job in lonely:
        fitting = [seat for seat in seats if seat.fits(job) and seat.session_id not in chosen]
        if fitting:
            chosen.add(min(fitting, key=_load).session_id)
    return chosen


def _load(seat: Seat) -> float:
    return seat.running / seat.slots
