"""Partitions made ahead, and what is past its retention dropped."""

from __future__ import annotations

import asyncio
from datetime import UTC, date, datetime, timedelta
from uuid import UUID

import asyncpg
import pytest

from jobmesh.ids import new_id
from jobmesh_dispatcher.store import retention
from jobmesh_dispatcher.store.retention import ensure_partitions, retain
from tests.support.job_rows import Connection, insert_ended, insert_live

PARENTS = ("jobs_cancelled", "jobs_dead", "jobs_succeeded")
DAY = timedelta(days=1)


async def today(connection: Connection) -> date:
    day: date = await connection.fetchval("SELECT (now() AT TIME ZONE 'UTC')::date")
    return day


async def partitions(connection: Connection, parent: str) -> list[str]:
    rows = await connection.fetch(
        """SELECT child.relname FROM pg_inherits JOIN pg_class child ON child.oid = inhrelid
           WHERE inhparent = ('jobmesh.' || $1)::regclass ORDER BY 1""",
        parent,
    )
    return [row["relname"] for row in rows]


def name(parent: str, day: date) -> str:
    return f"{parent}_{day:%Y%m%d}"


async def make(connection: Connection, parent: str, day: date) -> None:
    assert await connection.fetchval("SELECT jobmesh.make_partition($1, $2)", parent, day)


async def table_of(connection: Connection, job_id: str) -> str | None:
    table: str | None = await connection.fetchval(
        """SELECT relname::text FROM jobmesh.jobs_history job
           JOIN pg_class ON pg_class.oid = job.tableoid WHERE job_id = $1""",
        UUID(job_id),
    )
    return table


async def ended(connection: Connection, state: str, age: timedelta, **columns: object) -> str:
    return await insert_ended(connection, state=state, end_time=datetime.now(UTC) - age, **columns)


async def add_logs(connection: Connection, *job_ids: str) -> None:
    await connection.executemany(
        "INSERT INTO jobmesh.job_logs VALUES ($1, $2, 1, now(), 2, 'line')",
        [(UUID(job_id), number) for job_id in job_ids for number in (1, 2)],
    )


async def count(connection: Connection, table: str) -> int:
    number: int = await connection.fetchval(f"SELECT count(*) FROM jobmesh.{table}")
    return number


async def test_days_are_made_ahead_once(connection: Connection) -> None:
    day = await today(connection)
    assert await ensure_partitions(connection, 2) == 9
    for parent in PARENTS:
        days = [name(parent, day + n * DAY) for n in range(3)]
        assert await partitions(connection, parent) == [*days, f"{parent}_rest"]
    assert await ensure_partitions(connection, 2) == 0
    assert await ensure_partitions(connection, 3) == 3
    job_id = await ended(connection, "DEAD", timedelta(0))
    assert await table_of(connection, job_id) == name("jobs_dead", day)
    with pytest.raises(asyncpg.CheckViolationError):
        await insert_ended(connection, state="QUEUED")


async def test_days_are_the_same_in_every_time_zone(connection: Connection) -> None:
    day = await today(connection)
    await connection.execute("SET timezone = 'Pacific/Kiritimati'")
    await ensure_partitions(connection, 0)
    first = datetime(day.year, day.month, day.day, tzinfo=UTC)
    for time, expected in (
        (first, name("jobs_dead", day)),
        (first + DAY - timedelta(microseconds=1), name("jobs_dead", day)),
        (first + DAY, "jobs_dead_rest"),
    ):
        job_id = await insert_ended(connection, state="DEAD", end_time=time)
        assert await table_of(connection, job_id) == expected


async def test_a_day_that_has_begun_in_the_rest_stays_there(connection: Connection) -> None:
    job_id = await ended(connection, "SUCCEEDED", timedelta(0))
    assert await ensure_partitions(connection, 1) == 5
    assert await table_of(connection, job_id) == "jobs_succeeded_rest"
    later = await ended(connection, "SUCCEEDED", timedelta(0))
    assert await table_of(connection, later) == "jobs_succeeded_rest"


async def test_two_may_make_days_at_once(connection: Connection, database: str) -> None:
    others = [await asyncpg.connect(database, timeout=10, command_timeout=20) for _ in range(3)]
    everybody = (connection, *others)
    try:
        made = await asyncio.gather(*(ensure_partitions(each, 3) for each in everybody))
    finally:
        for each in others:
            await each.close(timeout=5)
    assert sum(made) == 12
    assert len(await partitions(connection, "jobs_dead")) == 5


async def test_a_reader_in_the_way_is_not_waited_for(
    connection: Connection, database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(retention, "TRIES", 1)
    reader = await asyncpg.connect(database, timeout=10, command_timeout=20)
    try:
        async with reader.transaction():
            await reader.fetch("SELECT job_id FROM jobmesh.jobs_dead")
            assert await ensure_partitions(connection, 0) == 2
        assert await ensure_partitions(connection, 0) == 1
    finally:
        await reader.close(timeout=5)


async def test_days_past_their_retention_are_dropped_with_their_logs(
    connection: Connection,
) -> None:
    day = await today(connection)
    for parent, age in (("jobs_succeeded", 9), ("jobs_succeeded", 6), ("jobs_dead", 9)):
        await make(connection, parent, day - age * DAY)
    old = await ended(connection, "SUCCEEDED", 9 * DAY, log_lines=2)
    kept = [
        await ended(connection, "SUCCEEDED", 6 * DAY, log_lines=2),
        await ended(connection, "DEAD", 9 * DAY, log_lines=2),
        await insert_live(connection, state="RUNNING", log_lines=2),
    ]
    await add_logs(connection, old, *kept)
    done = await retain(connection)
    assert (done.partitions, done.log_lines, done.complete) == (1, 2, True)
    assert name("jobs_succeeded", day - 9 * DAY) not in await partitions(
        connection, "jobs_succeeded"
    )
    assert await table_of(connection, old) is None
    assert [await table_of(connection, job_id) for job_id in kept[:2]] == [
        name("jobs_succeeded", day - 6 * DAY),
        name("jobs_dead", day - 9 * DAY),
    ]
    left = await connection.fetch("SELECT DISTINCT job_id::text FROM jobmesh.job_logs")
    assert {row["job_id"] for row in left} == set(kept)


async def test_what_has_no_day_leaves_in_batches(
    connection: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(retention, "BATCH", 2)
    old = [await ended(connection, "CANCELLED", 8 * DAY, log_lines=2) for _ in range(5)]
    old.append(await ended(connection, "DEAD", 91 * DAY))
    kept = await ended(connection, "DEAD", 8 * DAY, log_lines=2)
    await add_logs(connection, old[0], kept)
    done = await retain(connection)
    assert (done.jobs, done.partitions, done.log_lines) == (6, 0, 2)
    assert await count(connection, "jobs_history") == 1
    assert await count(connection, "job_logs") == 2


async def test_keys_are_kept_as_long_as_their_jobs_and_a_day(connection: Connection) -> None:
    day = await today(connection)
    await make(connection, "jobs_succeeded", day - 9 * DAY)
    created = datetime.now(UTC) - 9 * DAY
    jobs = {
        "live": await insert_live(connection, create_time=created),
        "kept": await ended(connection, "DEAD", 9 * DAY, create_time=created),
        "old": await ended(connection, "SUCCEEDED", 9 * DAY, create_time=created),
        "old and without a day": await ended(connection, "CANCELLED", 8 * DAY, create_time=created),
        # The clock that its end was taken from has been put right since.
        "young": await ended(connection, "CANCELLED", 8 * DAY, create_time=datetime.now(UTC)),
    }
    await connection.executemany(
        """INSERT INTO jobmesh.request_ids (namespace, request_id, job_id, digest, create_time)
           VALUES ('default', $1, $2, '', $3)""",
        [
            (key, UUID(job_id), datetime.now(UTC) if key == "young" else created)
            for key, job_id in jobs.items()
        ],
    )
    assert (await retain(connection)).request_ids == 2
    left = await connection.fetch("SELECT request_id FROM jobmesh.request_ids")
    assert {row["request_id"] for row in left} == {"live", "kept", "young"}


async def test_calls_are_known_for_a_day(connection: Connection) -> None:
    await connection.executemany(
        "INSERT INTO jobmesh.operations VALUES ($1, now() - make_interval(days => $2))",
        [(UUID(new_id()), age) for age in (0, 2, 2)],
    )
    assert (await retain(connection)).operations == 2
    assert await count(connection, "operations") == 1


async def test_sessions_that_ended_long_ago_are_forgotten(connection: Connection) -> None:
    await connection.executemany(
        """INSERT INTO jobmesh.sessions (session_id, attachment, runner_id, namespace,
               dispatcher_id, slots, types, queues, version, end_time)
           VALUES (gen_random_uuid(), gen_random_uuid(), $1, 'default', gen_random_uuid(),
               1, '{}', '{}', '', now() - make_interval(hours => $2))""",
        [("alive", None), ("recent", 1), ("old", 25)],
    )
    assert (await retain(connection)).sessions == 1
    left = await connection.fetch("SELECT runner_id FROM jobmesh.sessions")
    assert {row["runner_id"] for row in left} == {"alive", "recent"}


async def test_no_batch_begins_after_the_time_is_up(connection: Connection) -> None:
    day = await today(connection)
    await make(connection, "jobs_succeeded", day - 9 * DAY)
    done = await retain(connection, budget_seconds=0)
    assert not done.complete
    assert done.partitions == 0
    assert (await retain(connection)).partitions == 1


async def test_records_of_firings_are_kept_for_90_days_and_what_waits_for_its_turn_for_longer(
    connection: Connection,
) -> None:
    schedule, dropped = UUID(new_id()), UUID(new_id())
    await connection.execute(
        """INSERT INTO jobmesh.schedules
               (uid, namespace, schedule_id, definition, job, overlap_policy, cursor_time)
           VALUES ($1, 'default', 's', '', '', 'ALLOW', now())""",
        schedule,
    )
    wanted: list[tuple[UUID, str]] = []
    for uid, days, outcome, is_kept in (
        (schedule, 91, "SKIPPED", False),
        (schedule, 89, "SKIPPED", True),
        (schedule, 91, "BUFFERED", True),
        (dropped, 91, "BUFFERED", False),
    ):
        time = datetime.now(UTC) - days * DAY - timedelta(seconds=len(wanted) + 1)
        await connection.execute(
            """INSERT INTO jobmesh.firings (schedule_uid, fire_time, kind, outcome, record_time)
               VALUES ($1, $2, 'DUE', $3, $2)""",
            uid,
            time,
            outcome,
        )
        if is_kept:
            wanted.append((uid, outcome))
    assert (await retain(connection)).firings == 2
    rows = await connection.fetch("SELECT schedule_uid, outcome FROM jobmesh.firings")
    assert sorted((row["schedule_uid"], row["outcome"]) for row in rows) == sorted(wanted)
