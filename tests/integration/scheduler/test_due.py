"""What the leader reads to find what is due: that, and nothing of the rest."""

from __future__ import annotations

import asyncpg
import pytest

from jobmesh_scheduler import statements
from jobmesh_scheduler.firing import SCHEDULES_A_TURN
from tests.support import plans
from tests.support import schedules as s

MANY = 10_000
COPIES = """
INSERT INTO jobmesh.schedules (uid, namespace, schedule_id, definition, job, overlap_policy,
    cursor_time, next_fire_time, wake_time)
SELECT gen_random_uuid(), namespace, 's' || n, definition, job, overlap_policy, cursor_time,
    now() + interval '1 hour', now() + interval '1 hour'
FROM jobmesh.schedules, generate_series(1, $1::integer) AS n
"""
SOME_ARE_DUE = """
UPDATE jobmesh.schedules SET wake_time = now() - interval '1 second'
WHERE uid IN (SELECT uid FROM jobmesh.schedules LIMIT $1)
"""


@pytest.mark.parametrize("due", [0, 1, 40])
async def test_the_cost_grows_with_what_is_due_and_not_with_what_exists(
    database: str, due: int
) -> None:
    async with s.opened(database) as store:
        await s.stored(store, s.schedule())
    connection = await asyncpg.connect(database, timeout=10, command_timeout=20)
    try:
        await connection.execute(COPIES, MANY)
        await connection.execute("ANALYZE jobmesh.schedules")
        await connection.execute("UPDATE jobmesh.schedules SET wake_time = now() + interval '1 h'")
        await connection.execute(SOME_ARE_DUE, due)
        turn = statements.DUE_SCHEDULES, SCHEDULES_A_TURN
        found = await connection.fetch(*turn)
        read = await plans.rows_read(
            connection, "schedules", statements.DUE_SCHEDULES, SCHEDULES_A_TURN
        )
        next_wake = await plans.rows_read(connection, "schedules", statements.NEXT_WAKE)
    finally:
        await connection.close(timeout=5)
    assert len(found) == read == due
    assert next_wake == 1
