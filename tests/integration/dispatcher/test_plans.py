"""How much of a large table each statement reads, planned with numbers that are out of date."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import asyncpg
import pytest

from jobmesh.ids import new_id
from jobmesh_dispatcher.database import KEPT_PLANS
from jobmesh_dispatcher.sql import load
from tests.support import decisions as d
from tests.support import plans
from tests.support.fleet import connected
from tests.support.job_rows import Connection
from tests.support.servers import TestPostgres

SESSION = UUID(new_id())
MANY = 6000
FEW = 10
PRIORITIES = 10
FILL = """
INSERT INTO jobmesh.jobs_live (job_id, namespace, queue, type, priority, spec, payload,
    payload_type, create_time, state, hold_reason, session_id, attempt, run_at, queued_at, woken_at,
    history)
SELECT gen_random_uuid(), 'default', $2, CASE WHEN n % 2 = 0 THEN 'even' ELSE 'odd' END, n % 10,
    '', '', 'application/json', now(), $3, $4, $5, 1,
    CASE WHEN $3 IN ('SCHEDULED', 'RETRYING') THEN now() END, now(), now(), '{}'
FROM generate_series(1, $1::integer) AS n
"""


FILLED = "filled_once"


@pytest.fixture(scope="module")
def filled(postgres: TestPostgres) -> Iterator[str]:
    """A database with a table that was measured while nothing ran and nothing was held."""
    with asyncio.Runner() as runner:
        runner.run(postgres.clone(FILLED))
        runner.run(_fill_all(postgres.dsn(FILLED)))
        yield FILLED
        runner.run(postgres.drop(FILLED))


async def _fill_all(dsn: str) -> None:
    async with connected(dsn) as connection:
        await connection.execute("ALTER TABLE jobmesh.jobs_live SET (autovacuum_enabled = false)")
        await _fill_queues(connection)


@pytest.fixture
async def large(postgres: TestPostgres, filled: str) -> AsyncIterator[Connection]:
    """A copy of it."""
    name = f"{filled}_copy"
    await postgres.clone(name, filled)
    async with connected(postgres.dsn(name)) as connection:
        yield connection
    await postgres.drop(name)


async def _fill_queues(connection: Connection) -> None:
    for name, max_depth in (("busy", None), ("deep", MANY - 1), ("empty", 100)):
        await connection.execute(
            """INSERT INTO jobmesh.queues (namespace, name, token, priorities, max_depth)
               VALUES ('default', $1, $1, 1023, $2)""",
            name,
            max_depth,
        )
    await connection.execute(
        """INSERT INTO jobmesh.sessions (session_id, attachment, runner_id, namespace,
               dispatcher_id, slots, types, queues, version)
           VALUES ($1, $1, 'runner', 'default', $1, 1, '{}', '{}', '0')""",
        SESSION,
    )
    await fill(connection, "busy", "QUEUED")
    await connection.execute("ANALYZE jobmesh.jobs_live")
    await fill(connection, "busy", "RUNNING", session_id=SESSION)
    await fill(connection, "deep", "RETRYING")
    await fill(connection, "limited", "QUEUED", hold_reason="MAX_RUNNING")
    await fill(connection, "unserved", "QUEUED", hold_reason="NO_RUNNER")


async def fill(
    connection: Connection,
    queue: str,
    state: str,
    hold_reason: str | None = None,
    session_id: UUID | None = None,
) -> None:
    await connection.execute(FILL, MANY, queue, state, hold_reason, session_id)


async def some(connection: Connection, state: str) -> list[UUID]:
    rows = await connection.fetch(
        "SELECT job_id FROM jobmesh.jobs_live WHERE state = $1 ORDER BY job_id LIMIT $2", state, FEW
    )
    return [row["job_id"] for row in rows]


async def rows_read(connection: Connection, name: str, *arguments: object) -> int:
    return await plans.rows_read(connection, "jobs_live", load(name), *arguments)


def _columns(ids: list[UUID], *values: object) -> list[list[object]]:
    return [list(ids), *([value] * len(ids) for value in values)]


BY_LEASE: dict[str, tuple[object, ...]] = {
    "lock_leased": (1, SESSION),
    "start_jobs": (1, SESSION),
    "save_progress": (1, SESSION, SESSION, b""),
    "save_checkpoints": (1, SESSION, SESSION, b"", ""),
    "append_logs": (1, SESSION, SESSION, 1, 1, ""),
    "clear_suspects": (1, SESSION),
    "lost_leases": (1, SESSION),
    "finish_jobs": (
        *(1, SESSION, "SUCCEEDED", "COMPLETED", "SUCCEEDED", 0, b"1", "application/json"),
        *(None, "", "", True, None, 0.1, 0),
    ),
    "return_jobs": (
        *(1, SESSION, "RETRYING", "FAILED", "FAILED", 1, 1.0, b"", "", "", True, None, 0.1),
        *(0, True),
    ),
}
BESIDE: dict[str, tuple[object, ...]] = {"finish_jobs": (True,)}
BY_ID: dict[str, tuple[object, ...]] = {
    "lock_queued": (),
    "claim_jobs": (SESSION, "runner", False),
    "park_jobs": ("NO_RUNNER",),
    "release_jobs": (),
    "bury_jobs": ("QUEUED", "DEAD", "CRASHED", 1, ""),
    "lock_undelivered": (),
    "charge_undelivered": (),
    "existing_jobs": (),
    "settled_reports": (1,),
}
BY_ONE_ID: dict[str, tuple[object, ...]] = {
    "read_jobs": ("default", True, 1 << 20, [SESSION]),
    "read_attempts": ("default", SESSION),
    "read_log": ("default", SESSION, 0, FEW),
    "lock_job": ("default", SESSION),
    "lock_terminal_job": ("default", SESSION),
    "revive_job": ("default", SESSION, None, None, None),
}
OF_ENDED_JOBS = ("lock_terminal_job", "revive_job")
HISTORY = ("jobs_succeeded", "jobs_cancelled", "jobs_dead")


@pytest.mark.parametrize("name", BY_LEASE)
async def test_a_report_is_found_by_its_job(large: Connection, name: str) -> None:
    columns = _columns(await some(large, "RUNNING"), *BY_LEASE[name])
    assert await rows_read(large, name, *columns, *BESIDE.get(name, ())) <= 3 * FEW


@pytest.mark.parametrize("name", BY_ID)
async def test_a_job_is_found_by_its_id(large: Connection, name: str) -> None:
    columns = _columns(await some(large, "QUEUED"), *BY_ID[name])
    assert await rows_read(large, name, *columns) <= 3 * FEW


async def test_a_claim_in_one_statement_reads_the_jobs_that_it_names(large: Connection) -> None:
    jobs = await some(large, "QUEUED")
    columns = _columns(jobs, SESSION, "runner")
    others = ([SESSION], [SESSION], ["busy"], "default", ["even", "odd"], None, 1 << 20)
    assert FEW <= await rows_read(large, "claim_at_once", *columns, *others) <= 2 * FEW


async def test_a_release_looks_at_few_jobs_of_each_priority(large: Connection) -> None:
    read = await rows_read(large, "lock_held", "default", "limited", "MAX_RUNNING", FEW)
    assert read <= PRIORITIES * 2 * FEW


@pytest.mark.parametrize("queues", [None, ["unserved"], ["busy"]])
async def test_a_runner_looks_at_few_parked_jobs(
    large: Connection, queues: list[str] | None
) -> None:
    await fill(large, "of another", "QUEUED", hold_reason="NO_RUNNER")
    read = await rows_read(large, "lock_held_for_runner", "default", queues, ["even", "x"], FEW)
    assert read <= 50 * FEW


async def test_a_depth_is_counted_no_further_than_its_limit(large: Connection) -> None:
    rows = await large.fetch(load("full_queues"))
    assert [row["name"] for row in rows] == ["deep"]
    assert await rows_read(large, "full_queues") <= MANY + FEW


async def test_what_is_due_is_found_without_what_is_not(large: Connection) -> None:
    await large.execute(
        """UPDATE jobmesh.jobs_live SET run_at = run_at + interval '1 hour',
               expire_at = now() + interval '1 hour'"""
    )
    soon = datetime.now(UTC) + timedelta(hours=1)
    for look in ("when_due", "any_expired"):
        assert await rows_read(large, look, "scheduler", 0) <= FEW
    assert await rows_read(large, "promote_jobs", MANY) == 0
    assert await rows_read(large, "lock_expired", MANY) == 0
    assert await rows_read(large, "wake_again", "default", "busy", 4, soon, 60.0, MANY) == 0


@pytest.fixture(params=["never measured", "measured while small"])
async def kept(
    connection: Connection, database: str, request: pytest.FixtureRequest
) -> AsyncIterator[Connection]:
    """A connection that keeps its plans, as it is when there is hardly a job."""
    if request.param == "measured while small":
        await connection.execute(FILL, 5, "busy", "QUEUED", None, None)
        await connection.execute("VACUUM ANALYZE jobmesh.jobs_live")
    keeping = await asyncpg.connect(database, timeout=10, server_settings=dict(KEPT_PLANS))
    yield keeping
    await keeping.close(timeout=5)


async def nodes(connection: Connection, name: str, *arguments: object) -> list[dict[str, Any]]:
    """All nodes of the plan that is made now, and kept."""
    text = await connection.fetchval("EXPLAIN (FORMAT JSON) " + load(name), *arguments)
    return list(_flat(json.loads(text)[0]["Plan"]))


def _flat(node: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield node
    for child in node.get("Plans", ()):
        yield from _flat(child)


def _scans(plan: list[dict[str, Any]]) -> set[str]:
    """The indexes that live jobs are read by."""
    scans = [node for node in plan if "Scan" in node["Node Type"]]
    live = [node for node in scans if node.get("Relation Name") == "jobs_live"]
    return {node.get("Index Name", node["Node Type"]) for node in live}


def _history_scans(plan: list[dict[str, Any]]) -> set[tuple[str, str]]:
    """The partitions of the history, and the index that each is read by."""
    scans = [node for node in plan if "Scan" in node["Node Type"]]
    ended = [node for node in scans if node.get("Relation Name", "").startswith(HISTORY)]
    return {(node["Relation Name"], node.get("Index Name", node["Node Type"])) for node in ended}


@pytest.mark.parametrize("name", [*BY_LEASE, *BY_ID])
async def test_the_plan_that_is_kept_finds_jobs_by_their_ids(kept: Connection, name: str) -> None:
    columns = _columns([SESSION], *(BY_LEASE | BY_ID)[name])
    plan = await nodes(kept, name, *columns, *BESIDE.get(name, ()))
    assert _scans(plan) == {"jobs_live_pkey"}


@pytest.mark.parametrize("name", BY_ONE_ID)
async def test_the_plan_that_is_kept_finds_one_job(kept: Connection, name: str) -> None:
    plan = await nodes(kept, name, *BY_ONE_ID[name])
    assert _scans(plan) == (set() if name in OF_ENDED_JOBS else {"jobs_live_pkey"})
    history = _history_scans(plan)
    assert bool(history) == (name != "lock_job")
    assert all(index == f"{partition}_job_id_idx" for partition, index in history), history


async def test_the_plan_of_a_claim_in_one_statement_finds_jobs_by_their_ids(
    kept: Connection,
) -> None:
    others = ([SESSION], [SESSION], ["busy"], "default", ["even"], None, 1 << 20)
    plan = await nodes(kept, "claim_at_once", [SESSION], [SESSION], ["runner"], *others)
    assert _scans(plan) == {"jobs_live_pkey"}


async def test_the_plans_that_are_kept_take_jobs_in_their_order(kept: Connection) -> None:
    held = await nodes(kept, "lock_held", "default", "busy", "MAX_RUNNING", FEW)
    unserved = await nodes(kept, "lock_held_for_runner", "default", None, ["even"], FEW)
    assert _scans(held) == {"jobs_live_held", "jobs_live_pkey"}
    assert _scans(unserved) == {"jobs_live_unserved", "jobs_live_pkey"}


async def test_a_large_submission_is_compared_with_itself_by_hash(kept: Connection) -> None:
    columns = [*zip(*[d.submission().columns(SESSION)], strict=True)]
    plan = await nodes(kept, "store_jobs", *map(list, columns), *[[] for _ in range(8)])
    assert not [node for node in plan if "Join Filter" in node]
