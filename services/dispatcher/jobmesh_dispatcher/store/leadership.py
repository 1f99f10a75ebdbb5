"""Acting for the leader.

Each of its acts holds its epoch, so that one that was deposed cannot act any more.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from jobmesh.errors import LeadershipLost
from jobmesh_dispatcher.sql import load

if TYPE_CHECKING:
    from jobmesh_dispatcher.database import Connection

ROLE = "scheduler"


async def hold_epoch(connection: Connection, epoch: int) -> None:
    """Hold the epoch until the transaction ends.

    Raises `LeadershipLost` if another one has begun.
    """
    if await connection.fetchval(load("hold_epoch"), ROLE, epoch) is None:
        raise LeadershipLost(epoch)
