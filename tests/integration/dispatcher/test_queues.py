"""Queues: what they hold, and changes of their settings between claims."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any
from uuid import UUID

import asyncpg
import pytest
from google.protobuf.duration_pb2 import Duration
from google.protobuf.field_mask_pb2 import FieldMask

from jobmesh.errors import EtagMismatch, InvalidField, NotFound
from jobmesh.v1.job_pb2 import RetryPolicy
from jobmesh.v1.queue_pb2 import Queue, QueueDepth
from jobmesh.v1.queue_service_pb2 import ListQueuesRequest, UpdateQueueRequest
from jobmesh_dispatcher.queue_token import queue_token
from jobmesh_dispatcher.sql import load
from jobmesh_dispatcher.store.queues import QueueChange, change_queue, read_queues, set_paused
from tests.support.job_rows import CREATED, Connection, insert_live
from tests.support.wait import until

MINUTE = timedelta(minutes=1)


async def change(
    connection: Connection, mask: list[str] | None = None, **settings: Any
) -> QueueChange:
    request = UpdateQueueRequest(
        queue=Queue(**{"name": "q", **settings}), update_mask=FieldMask(paths=mask or [])
    )
    async with connection.transaction():
        return await change_queue(connection, "default", request)


async def running(connection: Connection, queue: str = "q") -> int | None:
    count: int | None = await connection.fetchval(
        "SELECT running FROM jobmesh.queue_slots WHERE namespace = 'default' AND queue = $1", queue
    )
    return count


async def test_a_change_makes_the_queue_and_keeps_what_it_does_not_name(
    connection: Connection,
) -> None:
    policy = RetryPolicy(max_attempts=3, jitter=0)
    made = await change(connection, max_depth=10, default_retry_policy=policy)
    assert made.queue.max_depth == 10
    changed = await change(
        connection, max_running=2, default_timeout=Duration(seconds=5), dispatch_paused=True
    )
    assert changed.queue.max_depth == 10
    assert changed.queue.default_retry_policy == policy
    assert changed.queue.max_running == 2
    assert changed.queue.default_timeout == Duration(seconds=5)
    assert changed.queue.dispatch_paused
    assert changed.queue.etag != made.queue.etag
    token = await connection.fetchval("SELECT token FROM jobmesh.queues")
    assert token == queue_token("default", "q")


async def test_a_mask_also_unsets(connection: Connection) -> None:
    await change(connection, max_depth=10, max_running=1, default_timeout=Duration(seconds=1))
    after = await change(connection, ["max_depth", "default_timeout"], max_running=5)
    assert after.queue.max_depth == 0
    assert not after.queue.HasField("default_timeout")
    assert after.queue.max_running == 1
    everything = await change(connection, ["*"], max_depth=3)
    assert (everything.queue.max_running, everything.queue.max_depth) == (0, 3)


async def test_a_mask_of_something_else_is_refused(connection: Connection) -> None:
    with pytest.raises(InvalidField, match="update_mask"):
        await change(connection, ["etag"])
    assert not await connection.fetchval("SELECT count(*) FROM jobmesh.queues")


async def test_the_etag_must_be_the_current_one(connection: Connection) -> None:
    with pytest.raises(EtagMismatch):
        await change(connection, max_depth=1, etag="1")  # there is no queue yet
    first = await change(connection, max_depth=1)
    second = await change(connection, max_depth=2, etag=first.queue.etag)
    with pytest.raises(EtagMismatch):
        await change(connection, max_depth=3, etag=first.queue.etag)
    same = await change(connection, max_depth=2, etag=second.queue.etag)
    assert same.queue.etag == second.queue.etag


async def test_a_change_says_which_holds_have_ended(connection: Connection) -> None:
    await change(connection, max_running=5, dispatch_paused=True)
    lower = await change(connection, max_running=3)
    assert lower.ended_holds == []
    higher = await change(connection, max_running=4)
    assert higher.ended_holds == ["MAX_RUNNING"]
    removed = await change(connection, ["max_running"])
    assert removed.ended_holds == ["MAX_RUNNING"]
    resumed = await change(connection, ["dispatch_paused"])
    assert resumed.ended_holds == ["QUEUE_PAUSED", "MAX_RUNNING"]


async def test_pausing_keeps_the_note_until_the_queue_resumes(connection: Connection) -> None:
    await change(connection, max_depth=1)
    async with connection.transaction():
        paused = await set_paused(connection, "default", "q", True, "broken")
    assert paused.queue.dispatch_paused
    assert paused.queue.pause_note == "broken"
    assert "QUEUE_PAUSED" not in paused.ended_holds
    async with connection.transaction():
        resumed = await set_paused(connection, "default", "q", False, "")
    assert not resumed.queue.dispatch_paused
    assert resumed.queue.pause_note == ""
    assert "QUEUE_PAUSED" in resumed.ended_holds
    with pytest.raises(NotFound):
        await set_paused(connection, "default", "nix", True, "")


async def test_setting_a_limit_counts_what_runs(connection: Connection) -> None:
    await insert_live(connection, queue="q", state="RUNNING")
    await insert_live(connection, queue="q", state="CANCELLING")
    await insert_live(connection, queue="q")
    await insert_live(connection, queue="other", state="RUNNING")
    await insert_live(connection, queue="q", namespace="other", state="RUNNING")
    await change(connection, max_running=1)
    assert await running(connection) == 2
    slots = await connection.fetch(
        "SELECT namespace, queue, state FROM jobmesh.jobs_live WHERE slot ORDER BY state"
    )
    assert [tuple(row) for row in slots] == [
        ("default", "q", "CANCELLING"),
        ("default", "q", "RUNNING"),
    ]


async def test_changing_a_limit_puts_the_count_right(connection: Connection) -> None:
    await change(connection, max_running=1)
    await insert_live(connection, queue="q", state="RUNNING", slot=True)
    await insert_live(connection, queue="q", state="RUNNING")
    assert await running(connection) == 0
    await change(connection, max_running=2)
    assert await running(connection) == 2
    await change(connection, ["max_running"])
    assert await running(connection) == 2  # given back as the jobs end


async def test_a_change_waits_for_claims_and_later_claims_wait_for_it(
    connection: Connection, database: str
) -> None:
    """The schedule in which a limit that counts in the statement that locks would be overrun."""
    await change(connection, max_depth=1)
    job_id = await insert_live(connection, queue="q")
    token = queue_token("default", "q")
    claimer = await asyncpg.connect(database, timeout=10, command_timeout=20)
    try:
        claim = claimer.transaction()
        await claim.start()
        await claimer.fetch(load("share_queues"), [token])
        changing = asyncio.create_task(change(connection, max_running=1))
        await until(lambda: waits_for_a_lock(claimer))
        await claimer.execute(
            """UPDATE jobmesh.jobs_live SET state = 'RUNNING', session_id = gen_random_uuid()
               WHERE job_id = $1""",
            UUID(job_id),
        )
        await claim.commit()
        await changing
        assert await running(connection) == 1
        assert await connection.fetchval("SELECT slot FROM jobmesh.jobs_live")
        (seen,) = await claimer.fetch(load("share_queues"), [token])
        assert seen["max_running"] == 1
    finally:
        await claimer.close(timeout=5)


async def test_a_job_that_ends_while_a_limit_is_set_is_not_counted(
    connection: Connection, database: str
) -> None:
    await change(connection, max_depth=1)
    await insert_live(connection, queue="q", state="RUNNING")
    await insert_live(connection, queue="q", state="RUNNING")
    finisher = await asyncpg.connect(database, timeout=10, command_timeout=20)
    try:
        finish = finisher.transaction()
        await finish.start()
        await finisher.execute(
            """DELETE FROM jobmesh.jobs_live WHERE job_id =
               (SELECT job_id FROM jobmesh.jobs_live ORDER BY job_id LIMIT 1)"""
        )
        changing = asyncio.create_task(change(connection, max_running=1))
        await until(lambda: waits_for_a_lock(finisher))
        await finish.commit()
        await changing
        assert await running(connection) == 1
    finally:
        await finisher.close(timeout=5)


async def waits_for_a_lock(connection: Connection) -> bool:
    waiting: bool = await connection.fetchval(
        """SELECT EXISTS (SELECT FROM pg_stat_activity
           WHERE datname = current_database() AND wait_event_type = 'Lock')"""
    )
    return waiting


async def test_a_queue_tells_what_it_holds(connection: Connection) -> None:
    await change(connection, max_depth=100)
    await change(connection, name="empty", max_depth=100)
    for state, count in {"SCHEDULED": 1, "RUNNING": 2, "RETRYING": 3, "CANCELLING": 4}.items():
        for _ in range(count):
            await insert_live(connection, queue="q", state=state)
    await insert_live(connection, queue="q", queued_at=CREATED + MINUTE)
    await insert_live(connection, queue="q", queued_at=CREATED, hold_reason="MAX_RUNNING")
    await insert_live(connection, queue="q", queued_at=CREATED + MINUTE, hold_reason="NO_RUNNER")
    await insert_live(connection, queue="q", namespace="other")
    depth = QueueDepth(scheduled=1, queued=3, held=2, running=2, retrying=3, cancelling=4)
    page = await read_queues(connection, "default", ["q", "nix", "empty"], ListQueuesRequest())
    assert [queue.name for queue in page.queues] == ["empty", "q"]
    empty, queue = page.queues
    assert queue.depth == depth
    assert queue.oldest_queued_time.seconds == int(CREATED.timestamp())
    assert empty.depth == QueueDepth()
    assert not empty.HasField("oldest_queued_time")
    for number in range(5):  # many are counted in another way
        await change(connection, name=f"q{number}", max_depth=1)
    page = await read_queues(connection, "default", [], ListQueuesRequest())
    assert {queue.name: queue for queue in page.queues}["q"] == queue


async def test_queues_are_listed_in_pages_by_name(connection: Connection) -> None:
    for name in ("b", "a", "c.d", "c-d", "Z"):
        await change(connection, name=name, max_depth=1)
    names: list[str] = []
    request = ListQueuesRequest(page_size=2)
    while True:
        page = await read_queues(connection, "default", [], request)
        names += [queue.name for queue in page.queues]
        request.page_token = page.next_page_token
        if not page.next_page_token:
            break
        assert len(page.queues) == 2
    assert names == sorted(["b", "a", "c.d", "c-d", "Z"])
    with pytest.raises(InvalidField, match="page_token"):
        await read_queues(connection, "default", [], ListQueuesRequest(page_token="x"))
