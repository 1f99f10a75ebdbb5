"""Numbers for metrics."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from jobmesh_dispatcher.store.depth import measure_outbox, measure_queues
from tests.support.job_rows import Connection, insert_live


async def test_queues_are_measured_by_state_and_hold(connection: Connection) -> None:
    minute_ago = datetime.now(UTC) - timedelta(minutes=1)
    await insert_live(connection, queued_at=minute_ago)
    await insert_live(connection, queued_at=datetime.now(UTC))
    await insert_live(connection, hold_reason="NO_RUNNER", queued_at=datetime.now(UTC))
    # It keeps the time at which it was QUEUED, and waits no more.
    await insert_live(connection, state="RUNNING", queued_at=minute_ago)
    await insert_live(connection, namespace="other", queue="q", state="SCHEDULED")
    depths = {
        (d.namespace, d.queue, d.state, d.hold_reason): (d.jobs, round(d.oldest_seconds / 60))
        for d in await measure_queues(connection)
    }
    assert depths == {
        ("default", "default", "QUEUED", ""): (2, 1),
        ("default", "default", "QUEUED", "NO_RUNNER"): (1, 0),
        ("default", "default", "RUNNING", ""): (1, 0),
        ("other", "q", "SCHEDULED", ""): (1, 0),
    }


async def test_the_outbox_is_measured(connection: Connection) -> None:
    assert await measure_outbox(connection) == (0, 0.0)
    await connection.execute(
        """INSERT INTO jobmesh.outbox (subject, body, create_time)
           VALUES ('a', '', now() - interval '1 minute'), ('b', '', now())"""
    )
    outbox = await measure_outbox(connection)
    assert (outbox.messages, round(outbox.oldest_seconds / 60)) == (2, 1)
