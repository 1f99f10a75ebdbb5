"""A process that stands for election and, while it leads, acts as dispatchers do: under its epoch.

Arguments: DSN, the name of the holder, the lease in seconds. Each act is a row of `acts`.
"""

from __future__ import annotations

import asyncio
import signal
import sys

import asyncpg

from jobmesh_scheduler.ballot import BallotBox
from jobmesh_scheduler.database import DATABASE_ERRORS, Database
from jobmesh_scheduler.election import Election, Timing
from jobmesh_scheduler.tenure import Tenure

TABLE = """
CREATE TABLE acts (
    number   bigserial PRIMARY KEY,
    epoch    bigint NOT NULL,
    holder   text   NOT NULL
)
"""
# One statement would see the row as of its beginning: lock first, act in the next.
GUARD = "SELECT 1 FROM jobmesh.leadership WHERE name = 'scheduler' AND epoch = $1 FOR KEY SHARE"
ACT = "INSERT INTO acts (epoch, holder) VALUES ($1, $2)"
# A takeover waits for acts under way: one whose process is frozen must not hold it up.
BOUND = {"idle_in_transaction_session_timeout": "200ms"}


async def act_while_leading(dsn: str, holder: str, tenure: Tenure) -> None:
    connection = await asyncpg.connect(dsn, timeout=5, command_timeout=5, server_settings=BOUND)
    try:
        while tenure.valid:
            async with connection.transaction():
                if not await connection.fetchval(GUARD, tenure.epoch):
                    tenure.end("the epoch is over")
                    return
                await connection.execute(ACT, tenure.epoch, holder)
            await tenure.ended(0.005)
    except DATABASE_ERRORS as error:  # also of the driver's, in the middle of a cancellation
        tenure.end(f"the act failed: {type(error).__name__}")
    finally:
        await connection.close(timeout=1)


async def main(dsn: str, holder: str, lease: float) -> None:
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    database = Database(dsn, timeout=1.0)
    election = Election(
        BallotBox(database, holder),
        lambda tenure: act_while_leading(dsn, holder, tenure),
        Timing.of_lease(lease),
    )
    await database.start()
    await election.start()
    await stop.wait()
    await election.stop()
    await database.stop()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2], float(sys.argv[3])))
