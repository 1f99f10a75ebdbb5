"""PostgreSQL by itself: batches of rows inserted and claimed, each batch committed durably."""

from __future__ import annotations

import time
import uuid

import asyncpg

TABLE = """
CREATE TABLE bench_floor (
    job_id   uuid PRIMARY KEY,
    queue    text NOT NULL,
    state    text NOT NULL,
    payload  bytea NOT NULL,
    attempt  bigint NOT NULL DEFAULT 0
) WITH (fillfactor = 70)
"""
INSERT = """
INSERT INTO bench_floor (job_id, queue, state, payload)
SELECT id, 'default', 'QUEUED', $2 FROM unnest($1::uuid[]) AS id
"""
CLAIM = """
UPDATE bench_floor SET state = 'RUNNING', attempt = attempt + 1
WHERE job_id IN (
    SELECT job_id FROM bench_floor WHERE state = 'QUEUED' LIMIT $1 FOR UPDATE SKIP LOCKED
)
"""
BATCH = 500
PAYLOAD = b'{"month":"2026-10","rows":1000,"carrier":"AA","dry_run":false}'
TIMEOUT = 60.0


async def inserts_and_claims(dsn: str, count: int) -> tuple[float, float]:
    """Rows a second inserted, and claimed with SKIP LOCKED, in batches over one connection."""
    connection = await asyncpg.connect(dsn, timeout=TIMEOUT, command_timeout=TIMEOUT)
    try:
        await connection.execute(TABLE)
        try:
            return await _inserts(connection, count), await _claims(connection, count)
        finally:
            await connection.execute("DROP TABLE bench_floor")
    finally:
        await connection.close(timeout=TIMEOUT)


async def _inserts(connection: asyncpg.Connection, count: int) -> float:
    ids = [uuid.uuid4() for _ in range(count)]
    began = time.perf_counter()
    for start in range(0, count, BATCH):
        await connection.execute(INSERT, ids[start : start + BATCH], PAYLOAD)
    return count / (time.perf_counter() - began)


async def _claims(connection: asyncpg.Connection, count: int) -> float:
    began = time.perf_counter()
    for _ in range(0, count, BATCH):
        await connection.execute(CLAIM, BATCH)
    return count / (time.perf_counter() - began)
