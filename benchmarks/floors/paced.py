"""What a job's way is made of, bare and at the pace of a mesh that is not busy.

Two unary calls, one after the other, and one row committed durably. They take several times as long
as in a row: whatever sleeps in between has to be woken, and its caches to be filled.
"""

from __future__ import annotations

import asyncio
import time
import uuid

import asyncpg
import grpc.aio

from benchmarks.floors.postgres import INSERT, PAYLOAD, TABLE, TIMEOUT
from jobmesh.v1.job_service_pb2 import SubmitJobRequest
from jobmesh.v1.job_service_pb2_grpc import JobServiceStub


async def two_calls_and_a_row(
    channel: grpc.aio.Channel,
    dsn: str,
    request: SubmitJobRequest,
    per_second: int,
    seconds: float,
) -> list[float]:
    """Milliseconds that each took, begun at an even rate."""
    connection = await asyncpg.connect(dsn, timeout=TIMEOUT, command_timeout=TIMEOUT)
    try:
        await connection.execute(TABLE)
        try:
            return await _evenly(channel, connection, request, per_second, seconds)
        finally:
            await connection.execute("DROP TABLE bench_floor")
    finally:
        await connection.close(timeout=TIMEOUT)


async def _evenly(
    channel: grpc.aio.Channel,
    connection: asyncpg.Connection,
    request: SubmitJobRequest,
    per_second: int,
    seconds: float,
) -> list[float]:
    stub, took = JobServiceStub(channel), []
    first = time.perf_counter()
    for number in range(int(per_second * seconds)):
        await asyncio.sleep(first + number / per_second - time.perf_counter())
        began = time.perf_counter()
        for _ in range(2):
            await stub.SubmitJob(request, timeout=TIMEOUT)
        await connection.execute(INSERT, [uuid.uuid4()], PAYLOAD)
        took.append((time.perf_counter() - began) * 1000)
    return took
