"""Follow the leader, take over when it is silent, lead until that is over, and so on."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from jobmesh.server.tasks import TaskOwner
from jobmesh_scheduler import telemetry
from jobmesh_scheduler.ballot import Ballot, BallotBox, NoLeadershipRow
from jobmesh_scheduler.database import DATABASE_ERRORS
from jobmesh_scheduler.observation import Observation
from jobmesh_scheduler.tenure import Tenure

log = logging.getLogger(__name__)

MISSED_READS_FOR_UNREADY = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Timing:
    """How leadership is kept, in seconds.

    - ``lease``: how long the leader's counter has to stand still before others take over.
    - ``read_interval``: between a follower's reads; well under a quarter of the lease.
    - ``renew_interval``: between the leader's renewals.
    - ``margin``: how much earlier than the lease a leader that cannot renew stands down.
    """

    lease: float
    read_interval: float
    renew_interval: float
    margin: float

    @classmethod
    def of_lease(cls, lease: float) -> Timing:
        """The proportions that fit a lease."""
        return cls(
            lease=lease, read_interval=lease / 10, renew_interval=lease / 4, margin=lease / 8
        )


class Election:
    """A part of the service that runs ``lead`` whenever, and only while, this process leads.

    ``lead`` is cancelled as soon as the tenure has ended; it is not expected to return before.
    """

    def __init__(
        self, box: BallotBox, lead: Callable[[Tenure], Awaitable[None]], timing: Timing
    ) -> None:
        self._box = box
        self._lead = lead
        self._timing = timing
        self._owner = TaskOwner()
        self._observation: Observation[str, tuple[int, int]] = Observation(timing.lease)
        self._tenure: Tenure | None = None
        self._failures = 0

    @property
    def tenure(self) -> Tenure | None:
        """The present tenure, if this process leads."""
        return self._tenure

    @property
    def database_reachable(self) -> bool:
        """Whether the last reads or renewals reached the database."""
        return self._failures < MISSED_READS_FOR_UNREADY

    async def start(self) -> None:
        """Begin to follow."""
        self._failures = MISSED_READS_FOR_UNREADY  # not reached yet
        self._owner.spawn("election", self._run())

    async def stop(self) -> None:
        """Stop leading, then give leadership up, so that another scheduler takes over at once."""
        await self._owner.stop()
        tenure, self._tenure = self._tenure, None
        if tenure is None:
            return
        telemetry.stood_down()
        try:
            await self._box.release(tenure.epoch)
        except DATABASE_ERRORS as error:
            kind = type(error).__name__
            log.warning("leadership was not given up, others wait for its lease: %s", kind)
        else:
            log.info("gave up leadership of epoch %d", tenure.epoch)

    async def _run(self) -> None:
        while True:
            self._tenure = await self._win()
            await self._reign(self._tenure)
            self._tenure = None

    async def _win(self) -> Tenure:
        """Follow until leadership was ours to take, and was taken."""
        self._observation.begin_anew()
        while True:
            ballot = await self._look()
            if ballot is not None:
                tenure = await self._take(ballot)
                if tenure is not None:
                    return tenure
            await asyncio.sleep(self._timing.read_interval)

    async def _look(self) -> Ballot | None:
        """Read the row; what was read if it is free to take."""
        sent = time.monotonic()
        try:
            ballot = await self._box.read()
        except (*DATABASE_ERRORS, NoLeadershipRow) as error:
            self._failed("reading who leads", error)
            self._observation.begin_anew()
            return None
        self._reached()
        telemetry.saw_epoch(ballot.epoch)
        silent = self._observation.take_in(
            {self._box.holder: (ballot.epoch, ballot.counter)},
            sent=sent,
            received=time.monotonic(),
        )
        # Ours without a tenure: the answer to a take was lost, or we stood down by ourselves.
        free = ballot.holder is None or ballot.holder == self._box.holder
        return ballot if free or silent else None

    async def _take(self, ballot: Ballot) -> Tenure | None:
        sent = time.monotonic()
        try:
            epoch = await self._box.take(ballot)
        except DATABASE_ERRORS as error:
            self._failed("taking over", error)
            return None
        if epoch is None:
            return None
        log.info("leads with epoch %d, after %s", epoch, ballot.holder or "nobody")
        telemetry.took_over(epoch)
        return Tenure(epoch, term=self._timing.lease - self._timing.margin, sent=sent)

    async def _reign(self, tenure: Tenure) -> None:
        """Lead and renew until the tenure has ended, however that comes."""
        leading = asyncio.ensure_future(self._lead(tenure))
        leading.add_done_callback(lambda _: tenure.end("its duties have ended"))
        try:
            await self._keep(tenure)
        finally:
            # Its duties see this also where a driver lost their cancellation to its own error.
            tenure.end("this scheduler stops")
            leading.cancel()
            await asyncio.wait({leading})
        telemetry.stood_down()
        log.warning("no longer leads with epoch %d: %s", tenure.epoch, tenure.ended_because)
        if not leading.cancelled() and (error := leading.exception()) is not None:
            raise error

    async def _keep(self, tenure: Tenure) -> None:
        """Renew until that fails for too long, or somebody says that it is over."""
        pause = self._timing.renew_interval
        while not await tenure.ended(min(pause, tenure.remaining)):
            if not tenure.valid:
                tenure.end("its renewals did not get through")
                return
            pause = await self._renew(tenure)

    async def _renew(self, tenure: Tenure) -> float:
        """Renew once; seconds until the next time."""
        sent = time.monotonic()
        try:
            async with asyncio.timeout(tenure.remaining):
                ours = await self._box.renew(tenure.epoch)
        except DATABASE_ERRORS as error:
            self._failed("renewing leadership", error)
            telemetry.RENEWALS.labels("failed").inc()
            return self._timing.read_interval
        self._reached()
        if ours:
            tenure.renewed(sent)
            telemetry.RENEWALS.labels("renewed").inc()
        else:
            tenure.end("another scheduler took over")
            telemetry.RENEWALS.labels("lost").inc()
        return self._timing.renew_interval

    def _failed(self, what: str, error: BaseException) -> None:
        self._failures += 1
        if self._failures in (1, MISSED_READS_FOR_UNREADY + 1) or self._failures % 100 == 0:
            log.warning("%s failed: %s: %s", what, type(error).__name__, error)

    def _reached(self) -> None:
        if self._failures > MISSED_READS_FOR_UNREADY:
            log.info("the database answers again")
        self._failures = 0
