"""How late schedules fire: of many that exist, a few each second; and many in the same second."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import datetime, timedelta

import asyncpg
import grpc.aio

from benchmarks.flight import rate
from benchmarks.ours.requests import submission
from jobmesh.v1 import schedule_service_pb2 as pb
from jobmesh.v1.schedule_pb2 import OVERLAP_POLICY_ALLOW, Schedule
from jobmesh.v1.schedule_service_pb2_grpc import ScheduleServiceStub

CALL_TIMEOUT = 30.0
IN_FLIGHT = 32
AHEAD = timedelta(seconds=3)
LOOK_SECONDS = 0.2
PATIENCE = 30.0
LATENESS = """
SELECT extract(epoch FROM firing.record_time - firing.fire_time)::float8 * 1000 AS ms
FROM jobmesh.firings firing JOIN jobmesh.schedules schedule ON schedule.uid = firing.schedule_uid
WHERE schedule.schedule_id LIKE $1 || '-%' AND firing.fire_time >= $2
  AND firing.outcome = 'SUBMITTED'
"""


async def spread(
    channel: grpc.aio.Channel, connection: asyncpg.Connection, count: int, seconds: float
) -> list[float]:
    """Milliseconds by which each firing was late; each schedule fires once a minute."""
    made = [_schedule("spread", number) for number in range(count)]
    for number, schedule in enumerate(made):
        schedule.include.add(cron=f"{number % 60} * * * * *")
    await _make(channel, made)
    begin = await _now(connection)
    await asyncio.sleep(seconds)  # the time that is measured
    late = await _lateness(connection, "spread", begin)
    await _drop(channel, made)
    return late


async def burst(
    channel: grpc.aio.Channel, connection: asyncpg.Connection, count: int
) -> list[float]:
    """Milliseconds by which each was late of so many that fire once, all in the same second."""
    made = [_schedule("burst", number) for number in range(count)]
    at = (await _now(connection)).replace(microsecond=0) + AHEAD + timedelta(seconds=count / 100)
    for schedule in made:
        schedule.include.add().at.FromDatetime(at)
    await _make(channel, made)
    async with asyncio.timeout(PATIENCE + (at - await _now(connection)).total_seconds()):
        late = await _all_of(connection, "burst", at, count)
    await _drop(channel, made)
    return late


def _schedule(name: str, number: int) -> Schedule:
    return Schedule(
        schedule_id=f"{name}-{number}",
        overlap_policy=OVERLAP_POLICY_ALLOW,
        job=submission("bench.noop").job,
    )


async def _make(channel: grpc.aio.Channel, made: Sequence[Schedule]) -> None:
    stub = ScheduleServiceStub(channel)

    async def create(schedule: Schedule) -> None:
        request = pb.CreateScheduleRequest(schedule=schedule)
        await stub.CreateSchedule(request, timeout=CALL_TIMEOUT)

    await rate(made, create, IN_FLIGHT)


async def _drop(channel: grpc.aio.Channel, made: Sequence[Schedule]) -> None:
    stub = ScheduleServiceStub(channel)

    async def delete(schedule: Schedule) -> None:
        request = pb.DeleteScheduleRequest(schedule_id=schedule.schedule_id)
        await stub.DeleteSchedule(request, timeout=CALL_TIMEOUT)

    await rate(made, delete, IN_FLIGHT)


async def _all_of(
    connection: asyncpg.Connection, name: str, since: datetime, count: int
) -> list[float]:
    while True:
        late = await _lateness(connection, name, since)
        if len(late) >= count:
            return late
        await asyncio.sleep(LOOK_SECONDS)


async def _now(connection: asyncpg.Connection) -> datetime:
    now: datetime = await connection.fetchval("SELECT clock_timestamp()")
    return now


async def _lateness(connection: asyncpg.Connection, name: str, since: datetime) -> list[float]:
    rows = await connection.fetch(LATENESS, name, since)
    return [row["ms"] for row in rows]
