"""The heart of the dispatcher: wake-ups come in, jobs go out to runners.

One round claims, for the runners that have room, first the jobs that were parked for want of them,
then those that pulled wake-ups name; acknowledges the wake-ups; and asks for as many more as there
is room for. Rounds follow each other as long as there is something to do, and each takes whatever
arrived during the last one: busy, a transaction claims hundreds of jobs; idle, a job waits for
nothing.

* The database is down: pulled wake-ups stay at hand, no more are pulled, and the round is tried
  again. Those older than the ack wait are let go: the broker delivers them again.
* All runners are full: a wake-up at hand waits briefly for room, then its jobs are parked, where
  every dispatcher sees them.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING

from jobmesh.errors import BackendUnavailable
from jobmesh.server.metrics import counter, histogram
from jobmesh.server.tasks import TaskOwner
from jobmesh_dispatcher import failpoints
from jobmesh_dispatcher.assignments import assignment_of
from jobmesh_dispatcher.attachment import Attachment
from jobmesh_dispatcher.claiming import Candidate, idle_seat, set_aside
from jobmesh_dispatcher.pulls import Pulled, Pulls
from jobmesh_dispatcher.sql import load
from jobmesh_dispatcher.store.claim import Claimed, claim, claim_held, claim_lonely

if TYPE_CHECKING:
    from jobmesh_dispatcher.after_commit import AfterCommit
    from jobmesh_dispatcher.database import Database
    from jobmesh_dispatcher.roster import Roster

log = logging.getLogger(__name__)

JOBS_A_ROUND = 512
LONELY_A_ROUND = 32
TICK_SECONDS = 1.0
WAIT_FOR_ROOM_SECONDS = 0.1
RETRY_SECONDS = 0.5
CLAIMED = counter("jobmesh_jobs_claimed_total", "Jobs claimed by this dispatcher for its runners.")
PARKED = counter("jobmesh_jobs_parked_total", "Jobs parked for want of a runner with room.")
ROUND = histogram("jobmesh_claim_seconds", "How long a claim took, commit included.")


class DispatchLoop:
    """Claims jobs for attached runners."""

    def __init__(
        self,
        database: Database,
        roster: Roster,
        after_commit: AfterCommit,
        make_pulls: Callable[[Callable[[Pulled], None], Callable[[], None]], Pulls],
        *,
        ack_wait_seconds: float,
    ) -> None:
        self._database = database
        self._roster = roster
        self._after_commit = after_commit
        self.pulls = make_pulls(self._on_message, self.wake)
        self._ack_wait = ack_wait_seconds
        self._at_hand: list[Pulled] = []
        self._lonely_hint = True  # jobs may be parked that are to have a runner for themselves
        self._unhealthy = False  # the database did not take the last claim: pull no more
        self._wake = asyncio.Event()
        self._wake_pulls = asyncio.Event()
        self._owner = TaskOwner()
        self._acks = TaskOwner()
        roster.changed = self.wake

    async def start(self) -> None:
        """Begin to claim."""
        await self.pulls.start()
        self._owner.spawn("dispatch", self._run())
        self._owner.spawn("pull", self._keep_pulling())

    async def stop(self) -> None:
        """Stop claiming; what is at hand is delivered to others after the ack wait."""
        await self._owner.stop()
        await self.pulls.stop()
        await self._acks.stop()

    def wake(self) -> None:
        """There may be something to do."""
        self._wake.set()
        self._wake_pulls.set()

    def serve(self, channels: Sequence[tuple[str, int]]) -> None:
        """Pull wake-ups of these (token, priority) from now on."""
        self.pulls.serve(channels)
        self.wake()

    def _on_message(self, message: Pulled) -> None:
        self._at_hand.append(message)
        self._wake.set()

    async def _run(self) -> None:
        while True:
            try:
                await self._round()
                self._unhealthy = False
            except BackendUnavailable:
                self._unhealthy = True
                self._let_go()
                await asyncio.sleep(RETRY_SECONDS)  # a backoff: there is nothing to wait for
            else:
                await self._pause(WAIT_FOR_ROOM_SECONDS if self._at_hand else TICK_SECONDS)

    async def _pause(self, seconds: float) -> None:
        try:
            async with asyncio.timeout(seconds):
                await self._wake.wait()
        except TimeoutError:
            # Nudges may be lost: look for parked jobs once in a while.
            if seconds == TICK_SECONDS:
                self._lonely_hint = True
                for attachment in self._roster:
                    attachment.held_hint = True
        self._wake.clear()

    async def _round(self) -> None:
        if self._lonely_hint:
            await self._place_lonely()
        for attachment in self._roster:
            if attachment.held_hint and attachment.free:
                await self._claim_held(attachment)
        while batch := self._next_batch():
            await self._claim(batch)

    async def _keep_pulling(self) -> None:
        """Ask for wake-ups while the last ones are being claimed, as far as there is room."""
        while True:
            at_hand = sum(len(message.job_ids) for message in self._at_hand)
            if not self._unhealthy:
                await self.pulls.pull(self._roster.free - at_hand - self.pulls.requested)
            try:
                async with asyncio.timeout(TICK_SECONDS):
                    await self._wake_pulls.wait()
            except TimeoutError:
                pass  # requests that the broker forgot are found out once in a while
            self._wake_pulls.clear()

    def _next_batch(self) -> list[Pulled]:
        """Wake-ups to claim now.

        None while no runner has room, unless they have waited for it long enough.
        """
        if not self._at_hand:
            return []
        waited = time.monotonic() - self._at_hand[0].time
        if not self._roster.free and waited < WAIT_FOR_ROOM_SECONDS:
            return []
        batch: list[Pulled] = []
        jobs = 0
        for message in self._at_hand:
            if batch and jobs + len(message.job_ids) > JOBS_A_ROUND:
                break
            batch.append(message)
            jobs += len(message.job_ids)
        return batch

    async def _claim(self, batch: Sequence[Pulled]) -> None:
        job_ids = list(dict.fromkeys(job_id for message in batch for job_id in message.job_ids))
        tokens = sorted({message.token for message in batch})
        seats = self._roster.seats()
        await failpoints.reach("claim.before")
        with ROUND.time():
            claimed = await self._database.run(lambda c: claim(c, job_ids, tokens, seats))
        await failpoints.reach("claim.before_send")
        del self._at_hand[: len(batch)]
        self._hand_out(claimed)
        self._wake_pulls.set()
        self._acks.spawn("ack", self._ack(batch))

    async def _ack(self, batch: Sequence[Pulled]) -> None:
        await failpoints.reach("claim.before_ack")
        await self.pulls.ack(batch)

    async def _place_lonely(self) -> None:
        """Give suspects that are to be alone to idle runners, and set others aside for the rest.

        Jobs that no runner here fits are another dispatcher's.
        """
        rows = await self._database.fetch(load("lonely_jobs"), LONELY_A_ROUND)
        self._lonely_hint = False
        waiting: list[Candidate] = []
        for job in [Candidate(**row, alone=True) for row in rows]:
            seat = idle_seat(job, self._roster.seats())
            if seat is None:
                waiting.append(job)
            else:
                self._hand_out(await self._database.run(partial(claim_lonely, job=job, seat=seat)))
        here = [attachment.seat() for attachment in self._roster if not attachment.draining]
        chosen = set_aside(waiting, here)
        for attachment in self._roster:
            attachment.set_aside = attachment.session_id in chosen
            # Looked at again when its last job is reported, which wakes the loop.
            self._lonely_hint |= attachment.set_aside

    async def _claim_held(self, attachment: Attachment) -> None:
        seat = attachment.seat()
        room = seat.free
        with ROUND.time():
            claimed = await self._database.run(lambda c: claim_held(c, seat))
        attachment.held_hint = len(claimed.rows) + len(claimed.held_types) >= room
        self._hand_out(claimed)

    def _hand_out(self, claimed: Claimed) -> None:
        """Send claimed jobs to their runners.

        A runner that left meanwhile is found out by its session's end, or when it attaches again.
        """
        by_session: dict[object, list[object]] = {}
        for row in claimed.rows:
            by_session.setdefault(row["session_id"], []).append(assignment_of(row))
        for attachment in self._roster:
            if jobs := by_session.get(attachment.session_id):
                attachment.assign(jobs)  # type: ignore[arg-type]
        CLAIMED.inc(len(claimed.rows))
        PARKED.inc(len(claimed.held_types))
        self._lonely_hint |= claimed.lonely
        if claimed.held_types:
            self._roster.hint_held(claimed.held_types)
        self._after_commit.claimed(claimed)

    def _let_go(self) -> None:
        """Forget what the broker will have delivered again by now."""
        horizon = time.monotonic() - self._ack_wait
        self._at_hand = [message for message in self._at_hand if message.time > horizon]
