"""The heart of the dispatcher: wake-ups come in, jobs go out to runners.

One round claims, for the runners that have room, first the jobs that were parked for want of them,
then those that pulled wake-ups name; acknowledges the wake-ups; and asks for as many more as there
is room for. Rounds follow each other as long as there is something to do, and each takes whatever
arrived during the last one: busy, a transaction claims hundreds of jobs; idle, a job waits for
nothing.

* The database is down: pulled wake-ups stay at hand, and no more are pulled until it answers, so
  that an outage uses up no deliveries. Those older than the ack wait are let go: the broker
  delivers them again.
* A claim fails for a reason of its own: its wake-ups are tried one by one, then the jobs of the one
  at fault, which is left to the broker: its limit of deliveries ends it.
* All runners are full: a wake-up at hand waits briefly for room, then its jobs are parked, where
  every dispatcher sees them.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from jobmesh.errors import BackendUnavailable
from jobmesh.server.tasks import TaskOwner
from jobmesh_dispatcher import failpoints
from jobmesh_dispatcher.pulls import Pulled, Pulls

if TYPE_CHECKING:
    from jobmesh_dispatcher.claims import Claims
    from jobmesh_dispatcher.database import Database
    from jobmesh_dispatcher.roster import Roster

log = logging.getLogger(__name__)

JOBS_A_ROUND = 512
TICK_SECONDS = 1.0
WAIT_FOR_ROOM_SECONDS = 0.1
RETRY_SECONDS = 0.5


class DispatchLoop:
    """Claims jobs for attached runners."""

    def __init__(
        self,
        database: Database,
        roster: Roster,
        claims: Claims,
        make_pulls: Callable[[Callable[[Pulled], None], Callable[[], None]], Pulls],
        *,
        ack_wait_seconds: float,
    ) -> None:
        self._database = database
        self._roster = roster
        self._claims = claims
        self.pulls = make_pulls(self._on_message, self.wake)
        self._ack_wait = ack_wait_seconds
        self._at_hand: list[Pulled] = []
        self._looked_at = 0.0  # when jobs were last looked for that nobody told of; monotonic
        self._stopping = False
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
        """Stop claiming, and leave what is at hand to others."""
        self._stopping = True
        await self._owner.stop()
        await self.pulls.stop()
        await self._acks.stop()
        at_hand, self._at_hand = self._at_hand, []
        await self.pulls.give_back(at_hand)

    def wake(self) -> None:
        """There may be something to do."""
        self._wake.set()
        self._wake_pulls.set()

    def serve(self, channels: Sequence[tuple[str, int]]) -> None:
        """Pull wake-ups of these (token, priority) from now on."""
        self.pulls.serve(channels)
        self.wake()

    def nothing_waits(self) -> bool:
        """Whether a job that comes now would be the next to begin."""
        parked = any(attachment.held_hint and attachment.free for attachment in self._roster)
        pulled = self._at_hand or self.pulls.requested > 0
        return not (parked or pulled or self._unhealthy or self._stopping)

    def _on_message(self, message: Pulled) -> None:
        self._at_hand.append(message)
        self.wake()  # and ask for the next one while this one is being claimed

    async def _run(self) -> None:
        while True:
            try:
                await self._round()
            except BackendUnavailable:
                await self._until_database_answers()
            except Exception:
                log.exception("a round failed; the next one is tried")
                await asyncio.sleep(RETRY_SECONDS)  # a backoff: there is nothing to wait for
            else:
                await self._pause()

    async def _until_database_answers(self) -> None:
        self._unhealthy = True
        while self._unhealthy:
            self._let_go()
            await asyncio.sleep(RETRY_SECONDS)  # a backoff: there is nothing to wait for
            try:
                await self._database.ping()
                self._unhealthy = False
            except BackendUnavailable:
                pass

    async def _pause(self) -> None:
        """Wait until there is something to do."""
        if any(attachment.held_hint and attachment.free for attachment in self._roster):
            return  # more is parked than one look found
        try:
            async with asyncio.timeout(WAIT_FOR_ROOM_SECONDS if self._at_hand else TICK_SECONDS):
                await self._wake.wait()
        except TimeoutError:
            pass  # time to look for what nobody told of
        self._wake.clear()

    async def _round(self) -> None:
        self._look_for_parked()
        if self._claims.lonely_hint:
            await self._claims.lonely()
        for attachment in self._roster:
            if attachment.held_hint and attachment.free:
                await self._claims.held(attachment)
        while batch := self._next_batch():
            await self._claim(batch)

    def _look_for_parked(self) -> None:
        """Once in a while, however busy: nudges may be lost."""
        now = time.monotonic()
        if now - self._looked_at >= TICK_SECONDS:
            self._looked_at = now
            self._claims.lonely_hint = True
            for attachment in self._roster:
                attachment.held_hint = True

    async def _keep_pulling(self) -> None:
        """Ask for wake-ups while the last ones are being claimed, as far as there is room."""
        while True:
            at_hand = sum(len(message.job_ids) for message in self._at_hand)
            at_hand -= self._claims.under_way  # whose room is taken already
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
        try:
            await self._claim_together(batch)
        except BackendUnavailable:
            raise
        except Exception:
            if len(batch) == 1:
                log.exception("a wake-up of queue %s is left to the broker", batch[0].token)
                await self._claim_each(batch[0])
                self._at_hand.remove(batch[0])
                return
            log.warning("a claim failed; its %d wake-ups are tried one by one", len(batch))
            for message in batch:
                await self._claim([message])

    async def _claim_each(self, message: Pulled) -> None:
        """The jobs of a wake-up that failed, one by one: only the one at fault is left waiting."""
        for job_id in message.job_ids if len(message.job_ids) > 1 else ():
            try:
                await self._claims.named([job_id], [message.token])
            except BackendUnavailable:
                raise
            except Exception:
                log.warning("job %s cannot be claimed", job_id)

    async def _claim_together(self, batch: Sequence[Pulled]) -> None:
        job_ids = list(dict.fromkeys(job_id for message in batch for job_id in message.job_ids))
        tokens = sorted({message.token for message in batch})
        await self._claims.named(job_ids, tokens)
        done = {message.reply for message in batch}
        self._at_hand = [message for message in self._at_hand if message.reply not in done]
        self._wake_pulls.set()
        self._acks.spawn("ack", self._ack(batch))

    async def _ack(self, batch: Sequence[Pulled]) -> None:
        await failpoints.reach("claim.before_ack")
        await self.pulls.ack(batch)

    def _let_go(self) -> None:
        """Forget what the broker will have delivered again by now."""
        horizon = time.monotonic() - self._ack_wait
        self._at_hand = [message for message in self._at_hand if message.time > horizon]
