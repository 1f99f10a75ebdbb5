"""Claims for the runners that are attached here: each is made, committed, and handed out.

* A claim is answered late: it is given up before its jobs can be taken for unknown to their runner.
* A runner left or attached again meanwhile: it is not sent its jobs. They are found out by the end
  of its session, or have been when it attached.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING
from uuid import UUID

from jobmesh.errors import BackendUnavailable
from jobmesh.server.metrics import counter, histogram
from jobmesh_dispatcher import failpoints
from jobmesh_dispatcher.assignments import assignment_of
from jobmesh_dispatcher.claiming import Candidate, Seat, idle_seat, set_aside, spread_out
from jobmesh_dispatcher.sql import load
from jobmesh_dispatcher.store.claim import Claimed, claim, claim_held, claim_lonely
from jobmesh_dispatcher.store.claim_at_once import claim_at_once

if TYPE_CHECKING:
    from jobmesh_dispatcher.after_commit import AfterCommit
    from jobmesh_dispatcher.attachment import Attachment
    from jobmesh_dispatcher.database import Connection, Database
    from jobmesh_dispatcher.roster import Roster

LONELY_A_ROUND = 32
HELD_AT_ONCE = 512
# Shorter than the 5 s after which a job that its runner does not have is taken back: what comes
# later is not handed out any more.
CLAIM_SECONDS = 4.0
CLAIMED = counter("jobmesh_jobs_claimed_total", "Jobs claimed by this dispatcher for its runners.")
PARKED = counter("jobmesh_jobs_parked_total", "Jobs parked for want of a runner with room.")
CLAIM = histogram("jobmesh_claim_seconds", "How long a claim took, commit included.")


class Claims:
    """Claims jobs for the runners of a roster. Each method raises `BackendUnavailable`."""

    def __init__(self, database: Database, roster: Roster, after_commit: AfterCommit) -> None:
        self._database = database
        self._roster = roster
        self._after_commit = after_commit
        self.under_way = 0  # jobs named by wake-ups that room is reserved for
        self.lonely_hint = True  # jobs may be parked that are to have a runner for themselves

    async def named(self, job_ids: Sequence[UUID], tokens: Sequence[str]) -> None:
        """What wake-ups name; `tokens` are those of their queues."""
        await failpoints.reach("claim.before")
        left = await self._at_once(job_ids, tokens)
        while left:
            left = await self._closer(left, tokens)

    async def _closer(self, job_ids: Sequence[UUID], tokens: Sequence[str]) -> Sequence[UUID]:
        """Claim or park; those that would have made it too large."""
        seats = self._roster.seats()
        most = len(job_ids)
        # All of an idle runner: it may be for one that is to be alone.
        room = {s.session_id: min(s.free, most) if s.running else s.free for s in seats}
        with self._keep(room, most):
            claimed = await self._transaction(lambda c: claim(c, job_ids, tokens, seats))
            await failpoints.reach("claim.before_send")
            self.hand_out(claimed, seats)
        return claimed.left

    @contextmanager
    def _keep(self, room: Mapping[UUID, int], most: int) -> Iterator[None]:
        """Keep room for jobs that wake-ups name; the next pull is not to count them again."""
        self.under_way = min(most, sum(room.values()))
        try:
            with self._roster.reserve(room):
                yield
        finally:
            self.under_way = 0

    async def _at_once(self, job_ids: Sequence[UUID], tokens: Sequence[str]) -> Sequence[UUID]:
        """Claim those that nothing stands in the way of; the others."""
        seats = spread_out(len(job_ids), self._roster.seats())
        if not seats:
            return job_ids
        with self._keep(Counter(seat.session_id for seat in seats), len(seats)):
            claimed = await _in_time(
                self._database.run_alone(lambda c: claim_at_once(c, job_ids, tokens, seats))
            )
            await failpoints.reach("claim.before_send")
            self.hand_out(claimed, seats)
        taken = {row["job_id"] for row in claimed.rows}
        return [job_id for job_id in job_ids if job_id not in taken]

    async def held(self, attachment: Attachment) -> None:
        """What was parked for want of a runner like this one."""
        seat = attachment.seat_of(min(attachment.room, HELD_AT_ONCE))
        with attachment.reserve(seat.free):
            claimed = await self._transaction(lambda c: claim_held(c, seat))
            attachment.held_hint = claimed.looked_at >= seat.free or bool(claimed.left)
            self.hand_out(claimed, [seat])

    async def lonely(self) -> None:
        """Give suspects that are to be alone to idle runners, and set others aside for the rest.

        Jobs that no runner here fits are another dispatcher's.
        """
        rows = await self._database.fetch(load("lonely_jobs"), LONELY_A_ROUND)
        self.lonely_hint = False
        waiting: list[Candidate] = []
        for job in [Candidate(**row, alone=True) for row in rows]:
            seat = idle_seat(job, self._roster.seats())
            if seat is None:
                waiting.append(job)
            else:
                await self._claim_lonely(job, seat)
        self._set_aside(waiting)

    async def _claim_lonely(self, job: Candidate, seat: Seat) -> None:
        attachment = self._roster.get(seat.session_id)
        assert attachment is not None  # whose seat it is: nothing was awaited since
        with attachment.reserve(seat.free):
            claimed = await self._transaction(partial(claim_lonely, job=job, seat=seat))
            self.hand_out(claimed, [seat])

    def _set_aside(self, waiting: Sequence[Candidate]) -> None:
        here = [attachment.seat() for attachment in self._roster if not attachment.draining]
        chosen = set_aside(waiting, here)
        for attachment in self._roster:
            attachment.set_aside = attachment.session_id in chosen
            # Looked at again when its last job is reported, which wakes the loop.
            self.lonely_hint |= attachment.set_aside

    async def _transaction(self, act: Callable[[Connection], Awaitable[Claimed]]) -> Claimed:
        return await _in_time(self._database.run(act))

    async def begin(self, claimed: Claimed, seats: Iterable[Seat], since: float) -> None:
        """Send jobs that were claimed by another decision; `since` is when it began, monotonic.

        Too late, only tell of them: they may be taken for unknown to their runner by now.
        """
        if claimed.rows:
            await failpoints.reach("claim.before_send")
        in_time = time.monotonic() - since < CLAIM_SECONDS
        self.hand_out(claimed, seats if in_time else ())

    def hand_out(self, claimed: Claimed, seats: Iterable[Seat]) -> None:
        """Send claimed jobs to their runners, and tell of them."""
        attachments = {seat.attachment for seat in seats}
        by_session: dict[object, list[object]] = {}
        for row in claimed.rows:
            by_session.setdefault(row["session_id"], []).append(assignment_of(row))
        for attachment in self._roster:
            jobs = by_session.get(attachment.session_id)
            if jobs and attachment.id in attachments:
                attachment.assign(jobs)  # type: ignore[arg-type]
        CLAIMED.inc(len(claimed.rows))
        PARKED.inc(claimed.unserved)
        self.lonely_hint |= claimed.lonely
        if claimed.held_types:
            self._roster.hint_held(claimed.held_types)
        self._after_commit.claimed(claimed)


def may_begin_since(began: float) -> bool:
    """Whether a transaction that takes no longer than it should yet claims jobs in time.

    `began` is when it was first tried, monotonic.
    """
    return time.monotonic() - began < CLAIM_SECONDS / 2


async def _in_time(claim: Awaitable[Claimed]) -> Claimed:
    try:
        with CLAIM.time():
            async with asyncio.timeout(CLAIM_SECONDS):
                return await claim
    except TimeoutError:
        raise BackendUnavailable("postgresql") from None
