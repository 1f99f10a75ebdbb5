"""What the mesh tells of itself: leader, runners, limits, and what does not answer."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncIterator
from datetime import UTC, datetime

import pytest
import pytest_asyncio

import jobmesh
from jobmesh.client import ClusterInfo
from jobmesh.dev.ports import PortPool
from jobmesh.v1.schedule_pb2 import Schedule
from tests.support.fleet import Fleet, new_fleet
from tests.support.process import clean_environment
from tests.support.servers import TestPostgres
from tests.support.wait import until

pytestmark = pytest.mark.asyncio(loop_scope="module")

COUNTS = {"scheduler": 2}
SETTINGS = {
    "JOBMESH_APP": "tests.acceptance.handlers:app",
    "JOBMESH_SLOTS": "7",
    "JOBMESH_LEADER_LEASE_SECONDS": "1",
    "JOBMESH_PAYLOAD_LIMIT_BYTES": "54321",
}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def fleet(
    tmp_path_factory: pytest.TempPathFactory, ports: PortPool, postgres: TestPostgres
) -> AsyncIterator[Fleet]:
    directory = tmp_path_factory.mktemp("fleet")
    async with new_fleet(postgres, ports, directory, COUNTS, SETTINGS, Fleet) as fleet, fleet:
        yield fleet


async def led(fleet: Fleet, mesh: jobmesh.Client, other_than: str | None = None) -> ClusterInfo:
    """What is told once there is a runner, and a leader: not one that was killed before."""

    async def told() -> list[ClusterInfo]:
        info = await mesh.cluster()
        running = [member for member in fleet.of("scheduler") if member.running]
        leading = [member for member in running if await leads(fleet, member.name)]
        epochs = [await member.metric("jobmesh_scheduler_epoch") for member in leading]
        known = info.leader_id not in (None, other_than) and epochs == [info.epoch]
        return [info] if known and info.runners else []

    return (await until(told, 20))[0]


async def leads(fleet: Fleet, name: str) -> bool:
    return await fleet[name].metric("jobmesh_scheduler_leader") == 1


async def test_a_new_leader_is_told_with_its_epoch(fleet: Fleet) -> None:
    async with fleet.client() as mesh:
        before = await led(fleet, mesh)
        assert before.version == jobmesh.__version__
        assert [(g.version, g.runners, g.slots) for g in before.runners] == [
            (jobmesh.__version__, 1, 7)
        ]
        assert (before.dispatchers, before.payload_limit) == (1, 54321)
        assert before.unreachable == ()
        (leader,) = [m for m in fleet.of("scheduler") if await leads(fleet, m.name)]
        await leader.kill()
        after = await led(fleet, mesh, other_than=before.leader_id)
        assert after.epoch == (before.epoch or 0) + 1
    await fleet.restart(leader.name)


async def test_a_follower_serves_all_reads_and_edits_of_schedules(fleet: Fleet) -> None:
    async with fleet.client() as mesh:
        await led(fleet, mesh)
    (follower,) = [m for m in fleet.of("scheduler") if not await leads(fleet, m.name)]
    await fleet.restart("gateway-1", JOBMESH_SCHEDULERS=follower.address)  # it asks no other
    async with fleet.client() as mesh:
        schedules = mesh.schedules
        made = await schedules.create("s", "add", {"a": 1, "b": 2}, cron="0 0 1 1 *")
        assert not (await schedules.get("s")).paused
        assert [one.schedule_id async for one in schedules.list()] == ["s"]
        change = Schedule(schedule_id="s", description="changed", etag=made.etag)
        assert (await schedules.update_message(change)).proto.description == "changed"
        assert (await schedules.pause("s", "for now")).pause_note == "for now"
        assert (await schedules.resume("s")).next_fire_time is not None
        asked = await schedules.trigger("s", overlap="allow")
        past = datetime(2020, 1, 1, tzinfo=UTC), datetime(2022, 1, 1, tzinfo=UTC)
        filled = await schedules.backfill("s", *past, overlap="allow")
        assert [firing.kind for firing in (asked, *filled)] == ["TRIGGERED", *["BACKFILLED"] * 2]
        assert len(await schedules.preview("s", count=3)) == 3
        listed = {firing.job_id async for firing in schedules.firings("s")}
        assert listed == {firing.job_id for firing in (asked, *filled)}
        await schedules.delete("s")
        assert [one async for one in schedules.list()] == []
    assert not await leads(fleet, follower.name)
    await fleet.restart("gateway-1")


async def test_what_is_down_is_named_and_the_rest_is_told(fleet: Fleet) -> None:
    async with fleet.client() as mesh:
        await led(fleet, mesh)
        await asyncio.gather(*(member.kill() for member in fleet.of("scheduler")))
        info = await mesh.cluster()
        assert (info.unreachable, info.leader_id) == (("scheduler",), None)
        assert len(info.runners) == 1
    await fleet.restart(*(member.name for member in fleet.of("scheduler")))


async def test_the_command_line_shows_it(fleet: Fleet) -> None:
    async def as_the_client_says() -> bool:
        async with fleet.client() as mesh:
            info = await led(fleet, mesh)
        shown = await command(fleet, "cluster")
        told = json.loads(await command(fleet, "cluster", "-o", "json"))
        assert "1 with 7 slots" in shown
        assert told["limits"]["payload_bytes"] == 54321
        # The leader of before a test that killed it may be told until another one has followed.
        assert f"{info.leader_id}, epoch {info.epoch}" in shown
        return bool(told["leader"]["scheduler_id"] == info.leader_id)

    await until(as_the_client_says, 20)


async def command(fleet: Fleet, *arguments: str) -> str:
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "jobmesh.cli.main",
        *arguments,
        stdout=asyncio.subprocess.PIPE,
        env=clean_environment() | {"JOBMESH_ADDRESS": fleet.addresses("gateway")},
    )
    out, _ = await asyncio.wait_for(process.communicate(), 30)
    assert process.returncode == 0
    return out.decode()
