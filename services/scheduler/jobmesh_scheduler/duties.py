"""Run the leader's duties side by side for one tenure."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from typing import Protocol

from jobmesh.errors import JobmeshError
from jobmesh_scheduler import telemetry
from jobmesh_scheduler.dispatch import LeadershipLost
from jobmesh_scheduler.tenure import Tenure

log = logging.getLogger(__name__)

FIRST_BACKOFF = 0.2
LONGEST_BACKOFF = 2.0


class Duty(Protocol):
    """Something that a leader does again and again; made anew for every tenure."""

    name: str

    async def turn(self, epoch: int) -> float:
        """Do it once; seconds until it is to be done again.

        :raises LeadershipLost: if the epoch is over; or any other error, to be tried again.
        """


async def perform(duties: Sequence[Duty], tenure: Tenure) -> None:
    """Perform all duties until the tenure has ended, or this is cancelled.

    One that fails is tried again and keeps no other from being done.
    """
    async with asyncio.TaskGroup() as group:
        for duty in duties:
            group.create_task(_repeat(duty, tenure), name=duty.name)


async def _repeat(duty: Duty, tenure: Tenure) -> None:
    failures = 0
    while tenure.valid:
        try:
            pause = await _timed(duty, tenure.epoch)
        except LeadershipLost as error:
            tenure.end(f"a dispatcher refused {duty.name}: {error}")
            return
        except Exception as error:
            failures += 1
            _report(duty, error, failures)
            pause = backoff(failures)
        else:
            failures = 0
        await tenure.ended(pause)


async def _timed(duty: Duty, epoch: int) -> float:
    with telemetry.DUTY_SECONDS.labels(duty.name).time():
        try:
            return await duty.turn(epoch)
        except ExceptionGroup as failures:
            # Of calls made side by side: one of them tells that the epoch is over, or what is down.
            lost, _ = failures.split(LeadershipLost)
            raise (lost or failures).exceptions[0] from failures


def backoff(failures: int) -> float:
    """Seconds to wait after so many failures in a row."""
    return float(min(FIRST_BACKOFF * 2 ** min(failures - 1, 10), LONGEST_BACKOFF))


def _report(duty: Duty, error: Exception, failures: int) -> None:
    telemetry.DUTY_FAILURES.labels(duty.name).inc()
    # An outage is told once and then now and then; a defect of ours comes with its trace.
    if failures == 1 or failures % 20 == 0:
        trace = None if isinstance(error, JobmeshError) else error
        log.warning("%s failed %d time(s): %s", duty.name, failures, error, exc_info=trace)
