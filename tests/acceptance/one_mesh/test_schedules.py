"""Schedules over a whole mesh: by the client, by the command line, and by any language's gRPC."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import grpc.aio
import pytest

from jobmesh.channels import open_channel
from jobmesh.client import Client
from jobmesh.client.schedules import FiringInfo
from jobmesh.errors import EtagMismatch, InvalidField, NotFound, ScheduleExists, from_rpc_error
from jobmesh.v1.schedule_service_pb2 import TriggerScheduleRequest
from jobmesh.v1.schedule_service_pb2_grpc import ScheduleServiceStub
from tests.acceptance import everyday
from tests.support import programs
from tests.support.mesh import DevMesh
from tests.support.wait import until

WAIT = 30.0


async def first_firing(client: Client, schedule_id: str) -> FiringInfo | None:
    async for firing in client.schedules.firings(schedule_id, limit=1):
        return firing
    return None


async def trigger_at(mesh: DevMesh, time: datetime) -> str:
    """The job that it made."""
    request = TriggerScheduleRequest(schedule_id="ticks")
    request.fire_time.FromDatetime(time)
    async with open_channel(mesh.gateway, health_check=False) as channel:
        try:
            firing = await ScheduleServiceStub(channel).TriggerSchedule(request, timeout=WAIT)
        except grpc.aio.AioRpcError as error:
            raise from_rpc_error(error) from error
    return str(firing.job_id)


async def test_a_schedule_fires_jobs_that_run_until_it_is_paused(
    client: Client, mesh: DevMesh
) -> None:
    made = await client.schedules.create(
        "ticks", "add", {"a": 1, "b": 2}, every="1s", overlap="allow", description="each second"
    )
    assert made.next_fire_time is not None
    firing = await until(lambda: first_firing(client, "ticks"), WAIT)
    assert firing is not None
    assert (firing.outcome, firing.kind) == ("SUBMITTED", "DUE")
    job = client.job(firing.job_id)
    assert await job.result(timeout=WAIT) == 3
    info = await job.get()
    assert info.proto.schedule_id == "ticks"
    told = info.proto.spec.labels["jobmesh.fire_time"]
    assert datetime.fromisoformat(told) == firing.fire_time
    listed = [j.id async for j in client.list(schedule_id="ticks", limit=5)]
    assert listed
    paused = await client.schedules.pause("ticks", "enough")
    assert (paused.paused, paused.pause_note, paused.next_fire_time) == (True, "enough", None)
    asked = await client.schedules.trigger("ticks")
    assert (asked.kind, asked.outcome) == ("TRIGGERED", "SUBMITTED")
    assert asked.fire_time is not None
    assert await trigger_at(mesh, asked.fire_time) == asked.job_id, "sent again, it fires once"
    with pytest.raises(InvalidField, match="within a day"):
        await trigger_at(mesh, asked.fire_time - timedelta(days=2))
    assert (await client.schedules.resume("ticks")).next_fire_time is not None
    await client.schedules.delete("ticks")
    with pytest.raises(NotFound) as caught:
        await client.schedules.get("ticks")
    assert caught.value.reason == "SCHEDULE_NOT_FOUND"


async def test_the_past_is_backfilled_once_and_in_order(client: Client) -> None:
    await client.schedules.create(
        "past", "add", {"a": 1, "b": 1}, cron="0 0 1 1 *", paused=True, overlap="allow"
    )
    start, end = datetime(2020, 1, 1, tzinfo=UTC), datetime(2024, 1, 1, tzinfo=UTC)
    firings = await client.schedules.backfill("past", start, end)
    assert [f.fire_time.year for f in firings] == [2020, 2021, 2022, 2023]
    assert {f.outcome for f in firings} == {"SUBMITTED"}
    again = await client.schedules.backfill("past", start, end)
    assert [f.job_id for f in again] == [f.job_id for f in firings]
    with pytest.raises(InvalidField, match="future"):
        await client.schedules.backfill("past", start, datetime.now(UTC) + timedelta(days=1))
    await client.schedules.delete("past")


async def test_the_same_again_is_answered_and_another_one_refused(client: Client) -> None:
    first = await client.schedules.create("twice", "add", {"b": 1, "a": 2}, cron="@yearly")
    again = await client.schedules.create("twice", "add", {"b": 1, "a": 2}, cron="@yearly")
    assert again.etag == first.etag
    with pytest.raises(ScheduleExists):
        await client.schedules.create("twice", "add", {"a": 1}, cron="@yearly")
    changed = first.proto
    changed.time_zone = "Europe/Berlin"
    updated = await client.schedules.update_message(changed, ["time_zone"])
    assert updated.time_zone == "Europe/Berlin"
    assert updated.next_fire_time != first.next_fire_time
    with pytest.raises(EtagMismatch):
        await client.schedules.update_message(changed, ["time_zone"])
    changed.ClearField("etag")
    changed.start_time.seconds, changed.end_time.seconds = 20, 10
    with pytest.raises(InvalidField, match="later than start_time"):
        await client.schedules.update_message(changed, ["start_time", "end_time"])
    await client.schedules.delete("twice")


async def test_bad_ones_are_refused_by_field_and_position(client: Client) -> None:
    with pytest.raises(InvalidField) as caught:
        await client.schedules.create("bad", "add", cron="0 2,25 * * *", time_zone="Mars/Olympus")
    assert caught.value.violations[0][0] == "schedule.include[0].cron"
    assert caught.value.violations[0][1].startswith("at character 5")
    assert caught.value.violations[1][0] == "schedule.time_zone"


async def test_a_preview_shows_both_clocks(client: Client) -> None:
    from jobmesh.client.schedule_message import schedule_message

    wanted = schedule_message("p", "add", cron="30 2 * * *", time_zone="Europe/Berlin")
    after = datetime(2026, 3, 27, 12, tzinfo=UTC)
    planned = await client.schedules.preview(wanted, count=3, after=after)
    assert [p.local_time for p in planned] == [
        "2026-03-28T02:30:00+01:00",
        "2026-03-29T03:00:00+02:00",
        "2026-03-30T02:30:00+02:00",
    ]


FILE = """
owner: reports
schedules:
  nightly:
    type: add
    arguments: {a: 1, b: 2}
    cron: "0 2 * * *"
    time_zone: Europe/Berlin
    overlap: buffer_one
  hourly:
    type: add
    every: 1h
    exclude: ["* * * * SAT,SUN"]
    retry: {max_attempts: 2}
"""


@pytest.mark.timeout(240)
async def test_a_file_is_applied_again_and_again_and_pruned(
    mesh: DevMesh, client: Client, tmp_path: Path
) -> None:
    file = tmp_path / "schedules.yaml"

    async def apply(*options: str) -> list[str]:
        words = ("schedules", "apply", str(file), *options)
        return (await programs.jobmesh(mesh.gateway, *words)).succeeded().splitlines()

    file.write_text(FILE)
    assert await apply() == ["nightly: created", "hourly: created"]
    assert await apply("--prune") == ["nightly: unchanged", "hourly: unchanged"]
    file.write_text(FILE.replace("0 2", "0 3").partition("  hourly")[0])
    told = ["nightly: updated (dry run)", "hourly: removed (dry run)"]
    assert await apply("--prune", "--dry-run") == told
    assert await apply("--prune") == ["nightly: updated", "hourly: removed"]
    shown = await programs.jobmesh(mesh.gateway, "schedules", "get", "nightly", "-o", "json")
    assert json.loads(shown.succeeded())["include"] == [{"cron": "0 3 * * *"}]
    file.write_text("owner: another\nschedules: {nightly: {type: add, cron: '@daily'}}")
    done = await programs.jobmesh(mesh.gateway, "schedules", "apply", str(file))
    assert "belongs to reports" in done.errors
    await client.schedules.delete("nightly")


async def test_what_an_app_declares_is_there_once_a_runner_serves_it(client: Client) -> None:
    async def registered() -> bool:
        owned = [s async for s in client.schedules.list(owner=f"app:{everyday.__name__}:app")]
        return [s.schedule_id for s in owned] == ["everyday.yearly"]

    await until(registered, WAIT)
    declared = await client.schedules.get("everyday.yearly")
    assert declared.specs == ["0 0 1 1 *"]
    assert declared.type == "add"
