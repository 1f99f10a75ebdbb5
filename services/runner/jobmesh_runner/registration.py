"""Makes the mesh's schedules what the apps declare, once, when the runner starts."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping, Sequence

from jobmesh.client import Client, connect
from jobmesh.client.applying import OwnedByAnother, apply_schedules
from jobmesh.client.schedule_message import schedule_message
from jobmesh.declared import DeclaredSchedule
from jobmesh.errors import InvalidField, JobmeshError
from jobmesh.server.tasks import TaskOwner
from jobmesh.v1.schedule_pb2 import Schedule

log = logging.getLogger(__name__)

FIRST_PAUSE = 1.0
LONGEST_PAUSE = 30.0
TRY_SECONDS = 30.0


class Registration:
    """A lifecycle part. Jobs run whether it succeeds or not."""

    def __init__(self, address: str, declared: Mapping[str, Sequence[DeclaredSchedule]]) -> None:
        self._address = address
        self._declared = declared
        self._owner = TaskOwner()

    async def start(self) -> None:
        """Begin to register."""
        self._owner.spawn("schedules", self._run())

    async def stop(self) -> None:
        """Give up, if it has not succeeded yet."""
        await self._owner.stop()

    async def _run(self) -> None:
        pause = FIRST_PAUSE
        async with connect(self._address, timeout=TRY_SECONDS) as mesh:
            while not await self._registered(mesh):
                await asyncio.sleep(pause)
                pause = min(pause * 2, LONGEST_PAUSE)

    async def _registered(self, mesh: Client) -> bool:
        """Try it; whether there is nothing left to try."""
        try:
            for name, declared in self._declared.items():
                await _register(mesh, name, declared)
        except (InvalidField, OwnedByAnother, TypeError, ValueError) as error:
            log.error("schedules are not registered: %s", error)
        except JobmeshError as error:
            log.warning("schedules are not registered yet: %s", error)
            return False
        return True


async def _register(mesh: Client, name: str, declared: Sequence[DeclaredSchedule]) -> None:
    owner = f"app:{name}"[:200]
    wanted = [_message(one, owner) for one in declared]
    async for step in apply_schedules(mesh.schedules, wanted, owner=owner, prune=True):
        if step.action != "unchanged":
            log.info("schedule %s: %s", step.schedule_id, step.action)


def _message(declared: DeclaredSchedule, owner: str) -> Schedule:
    return schedule_message(
        declared.schedule_id,
        declared.task,
        declared.arguments,
        owner=owner,
        **dict(declared.settings),
    )
