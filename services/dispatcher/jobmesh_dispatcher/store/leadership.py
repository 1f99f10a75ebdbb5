"""Acting for the leader.

Each of its acts holds its epoch, so that one that was deposed cannot act any more.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from jobmesh.errors import LeadershipLost
from jobmesh_dispatcher.sql import load

if TYPE_CHECKING:
    from asyncpg import Record

    from jobmesh_dispatcher.database import Connection, Database

ROLE = "scheduler"


async def hold_epoch(connection: Connection, epoch: int) -> None:
    """Hold the epoch until the transaction ends.

    Raises `LeadershipLost` if another one has begun.
    """
    if await connection.fetchval(load("hold_epoch"), ROLE, epoch) is None:
        raise LeadershipLost(epoch)


async def look_ahead(database: Database, epoch: int) -> Record:
    """When there will be something to do, `due` and `expiry`, in seconds; None: nothing waits.

    A leader asks often, and mostly for nothing: this is one round trip, and no transaction. Raises
    `LeadershipLost` if another epoch has begun.
    """
    for row in await database.fetch(load("look_ahead"), ROLE, epoch):
        return row
    raise LeadershipLost(epoch)
