"""A wake-up whose claimers die each time ends in the stream of dead letters, and its jobs do not
wait for ever: they are charged, and run, or are DEAD in the end.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
import pytest_asyncio
from nats.errors import TimeoutError as NoMessage

from jobmesh.client import JobHandle
from jobmesh.dev.ports import PortPool
from jobmesh_dispatcher.vanished import LOST_AFTER_SECONDS
from tests.acceptance.handlers import note
from tests.support.fleet import Fleet, new_fleet, plain_nats
from tests.support.servers import TestPostgres
from tests.support.wait import until

pytestmark = pytest.mark.asyncio(loop_scope="module")

DISPATCHER = "dispatcher-1"
# Jobs wait for their wake-ups, and are not claimed right after their submission.
BY_WAKEUP = "claim.straight=error"
DIES = {"JOBMESH_FAILPOINTS": f"{BY_WAKEUP},claim.before=kill"}
LIVES = {"JOBMESH_FAILPOINTS": ""}
MAX_DELIVER = 2
MAX_CRASHES = 3
SETTINGS = {
    "JOBMESH_APP": "tests.acceptance.handlers:app",
    "JOBMESH_ACK_WAIT_SECONDS": "0.5",
    "JOBMESH_MAX_DELIVER": str(MAX_DELIVER),
}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def fleet(
    tmp_path_factory: pytest.TempPathFactory, ports: PortPool, postgres: TestPostgres
) -> AsyncIterator[Fleet]:
    directory = tmp_path_factory.mktemp("fleet")
    async with new_fleet(postgres, ports, directory, {}, SETTINGS, Fleet) as fleet, fleet:
        yield fleet


async def letters(fleet: Fleet) -> list[dict[str, Any]]:
    """All entries of the stream, oldest first, as any program reads them."""
    found: list[dict[str, Any]] = []
    async with plain_nats(fleet.nats.url) as nats:
        jetstream = nats.jetstream()
        held = (await jetstream.stream_info("JOBMESH_DEAD")).state.messages
        subscription = await jetstream.pull_subscribe("jm.dead.>", stream="JOBMESH_DEAD")
        while len(found) < held:
            try:
                messages = await subscription.fetch(held - len(found), timeout=5)
            except NoMessage:
                raise AssertionError(f"{held} messages, and these came: {found}") from None
            found += [json.loads(message.data) for message in messages]
        await subscription.unsubscribe()
    return found


async def wakeups(fleet: Fleet) -> int:
    async with plain_nats(fleet.nats.url) as nats:
        return (await nats.jetstream().stream_info("JOBMESH_JOBS")).state.messages


async def about(fleet: Fleet, *jobs: JobHandle) -> list[dict[str, Any]]:
    """The letters that name one of the jobs as undelivered."""
    ids = {job.id for job in jobs}
    return [each for each in await letters(fleet) if ids & set(each.get("undelivered_job_ids", ()))]


async def pulled_and_noted(fleet: Fleet) -> bool:
    """A wake-up is at hand, and the outbox owes no second one."""
    dispatcher = fleet[DISPATCHER]
    if await fleet.value("SELECT count(*) FROM jobmesh.outbox") or not await dispatcher.serves():
        return False
    return await dispatcher.metric("jobmesh_wakeups_pulled_total") == 1


async def all_wait_for_long(fleet: Fleet) -> bool:
    """Whether every job would be missed by now if its wake-up had vanished."""
    newest = "SELECT clock_timestamp() - max(woken_at) FROM jobmesh.jobs_live"
    return bool(await fleet.value(newest) > timedelta(seconds=LOST_AFTER_SECONDS))


@pytest.mark.timeout(120)
async def test_the_message_is_read_back_and_its_jobs_are_charged_and_run(
    fleet: Fleet, tmp_path: Path
) -> None:
    await fleet.restart(
        DISPATCHER, JOBMESH_FAILPOINTS=f"{BY_WAKEUP},claim.before=wait:{tmp_path / 'never'}"
    )
    async with fleet.client() as mesh:
        jobs = await mesh.submit_many([(note, {"number": number}) for number in range(3)])
        await until(lambda: pulled_and_noted(fleet), 20)
        await fleet[DISPATCHER].kill()
        for _ in range(MAX_DELIVER - 1):
            await fleet[DISPATCHER].start(**DIES)
            await fleet[DISPATCHER].dead()
        # As where a wake-up is given up after a minute only: by then it counts as vanished, too.
        await until(lambda: all_wait_for_long(fleet), 20, interval=0.2)
        await fleet.restart(DISPATCHER, **LIVES)
        infos = [await job.wait(30) for job in jobs]
    assert [(info.state, info.result) for info in infos] == [
        ("SUCCEEDED", number) for number in range(3)
    ]
    assert [(info.attempt, info.failures, info.crashes) for info in infos] == [(1, 0, 1)] * 3
    (letter,) = await until(lambda: about(fleet, *jobs), 10, interval=0.1)
    assert letter["reason"] == "JOB_REASON_MAX_DELIVER"
    assert set(letter["undelivered_job_ids"]) == {job.id for job in jobs}
    await until(lambda: no_wakeups(fleet), 10, interval=0.1)


@pytest.mark.timeout(120)
async def test_a_job_that_kills_its_claimers_for_ever_is_dead(fleet: Fleet, tmp_path: Path) -> None:
    pulls = {
        "JOBMESH_FAILPOINTS": f"{BY_WAKEUP},claim.before=wait:{tmp_path / 'never'}",
        "JOBMESH_MAX_DELIVER": "1",
    }
    await fleet.restart(DISPATCHER, **pulls)
    async with fleet.client() as mesh:
        job = await mesh.submit(note)
        for deaths in range(1, MAX_CRASHES + 2):
            await until(lambda: pulled_and_noted(fleet), 20, fleet.trouble)
            await fleet[DISPATCHER].kill()
            crashes = await fleet.value(
                "SELECT crashes FROM jobmesh.jobs WHERE job_id = $1", UUID(job.id)
            )
            assert crashes == deaths - 1
            await fleet[DISPATCHER].start(**pulls)
        info = await job.wait(30)
    assert (info.state, info.reason) == ("DEAD", "MAX_DELIVER")
    assert (info.attempt, info.crashes) == (0, MAX_CRASHES + 1)
    found = await until(lambda: about(fleet, job), 10, interval=0.1)
    assert len(found) == MAX_CRASHES + 1
    own = [letter["reason"] for letter in await letters(fleet) if letter.get("job_id") == job.id]
    assert own == ["JOB_REASON_MAX_DELIVER"]
    await until(lambda: no_wakeups(fleet), 10, interval=0.1)


async def no_wakeups(fleet: Fleet) -> bool:
    return await wakeups(fleet) == 0
