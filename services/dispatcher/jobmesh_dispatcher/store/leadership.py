"""Acting for the leader.

Each of its acts holds its epoch, so that one that was deposed cannot act any more.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from jobmesh.errors import LeadershipLost
from jobmesh_dispatcher.sql import load

if TYPE_CHECKING:
    from jobmesh_dispatcher.database import Connection, Database

ROLE = "scheduler"


async def hold_epoch(connection: Connection, epoch: int) -> None:
    """Hold the epoch until the transaction ends.

    Raises `LeadershipLost` if another one has begun.
    """
    if await connection.fetchval(load("hold_epoch"), ROLE, epoch) is None:
        raise LeadershipLost(epoch)


async def look(database: Database, statement: str, epoch: int) -> Any:
    """The one value that a statement reads for a leader, before it is worth a transaction.

    A leader asks often, and mostly for nothing: this is one round trip. Raises `LeadershipLost` if
    another epoch has begun.
    """
    for row in await database.fetch(load(statement), ROLE, epoch):
        return row[0]
    raise LeadershipLost(epoch)
