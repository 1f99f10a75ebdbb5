"""A person at a terminal: jobs and queues by the command line alone."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from jobmesh.client import Client
from jobmesh.ids import new_id
from tests.support import programs
from tests.support.mesh import DevMesh
from tests.support.programs import Done
from tests.support.wait import until

WAIT = 30.0
# Each command is a process, and takes as long to start as the machine is busy.
pytestmark = pytest.mark.timeout(180)


class Terminal:
    """`jobmesh` against one mesh."""

    def __init__(self, mesh: DevMesh) -> None:
        self._address = mesh.gateway

    async def run(self, *words: str) -> Done:
        return await programs.jobmesh(self._address, *words)

    async def says(self, *words: str) -> str:
        """What a command that succeeds prints."""
        return (await self.run(*words)).succeeded()

    async def tells(self, *words: str) -> list[Any]:
        """The JSON lines of a command that succeeds."""
        output = await self.says(*words, "--output", "json")
        return [json.loads(line) for line in output.splitlines()]


@pytest.fixture
def terminal(mesh: DevMesh) -> Terminal:
    return Terminal(mesh)


async def test_a_job_from_submit_to_result(terminal: Terminal) -> None:
    label = f"run={new_id()}"
    words = ("submit", "add", '{"a": 40}', "--arg", "b=2", "--label", label, "--queue", "typed")
    job_id = (await terminal.says(*words)).strip()
    assert (await terminal.says("wait", job_id)).strip() == "42"
    watched, shown, (told,), listed, attempts = await asyncio.gather(
        terminal.says("watch", job_id),
        terminal.says("get", job_id),
        terminal.tells("get", job_id),
        terminal.tells("list", "--label", label, "--state", "succeeded"),
        terminal.says("attempts", job_id),
    )
    assert "result" in watched
    assert "42" in watched
    assert "SUCCEEDED" in shown
    assert (told["state"], told["result"], told["spec"]["payload"]) == (
        "SUCCEEDED",
        42,
        {"a": 40, "b": 2},
    )
    assert [job["job_id"] for job in listed] == [job_id]
    assert "SUCCEEDED" in attempts


async def test_a_dead_job_is_shown_and_retried(terminal: Terminal) -> None:
    words = ("submit", "pick", '{"names": [], "index": 0}', "--max-attempts", "1", "--watch")
    done = await terminal.run(*words)
    assert done.code == 1
    assert "IndexError: list index out of range" in done.output
    assert "everyday.py" in done.output
    job_id = done.output.split(" job ", 1)[1].split()[0]
    assert (await terminal.says("retry", job_id)).split()[0] == job_id
    waited = await terminal.run("wait", job_id)
    assert waited.code == 1
    assert "DEAD" in waited.errors
    rows = (await terminal.says("attempts", job_id)).splitlines()
    assert len(rows) == 3
    assert all("FAILED" in row and "IndexError" in row for row in rows[1:])


async def test_a_running_job_is_followed_and_cancelled(terminal: Terminal, client: Client) -> None:
    job_id = (await terminal.says("submit", "tidy")).strip()
    watching = asyncio.create_task(terminal.run("watch", job_id, "--logs"))
    await until(lambda: has_progress(client, job_id), WAIT)
    cancelled = (await terminal.says("cancel", job_id, "--reason", "enough")).split()
    assert cancelled[0] == job_id
    watched = await watching
    assert watched.code == 3
    assert "tidied up" in watched.output
    assert "enough" in watched.output
    logs, missed = await asyncio.gather(
        terminal.says("logs", job_id), terminal.run("cancel", job_id, new_id())
    )
    assert "tidied up" in logs
    assert missed.code == 2
    assert "no such job" in missed.errors


async def has_progress(client: Client, job_id: str) -> bool:
    return (await client.job(job_id).get()).progress is not None


async def test_waiting_that_takes_too_long(terminal: Terminal, client: Client) -> None:
    job = await client.with_options(delay="1h").submit("add", a=1)
    done = await terminal.run("wait", job.id, "--timeout", "200ms")
    assert done.code == 4
    assert "is still SCHEDULED" in done.errors
    await job.cancel()


async def test_a_queue_is_paused_resumed_and_limited(terminal: Terminal, client: Client) -> None:
    await terminal.says("queues", "update", "shelf", "--max-running", "2", "--max-depth", "500")
    shown = await terminal.says("queues", "pause", "shelf", "--note", "stocktaking")
    assert "dispatch (stocktaking)" in shown
    jobs = [await client.with_options(queue="shelf").submit("add", a=n) for n in range(3)]
    await until(lambda: is_held(client, jobs[-1].id), WAIT)
    (told,), listed = await asyncio.gather(
        terminal.tells("queues", "get", "shelf"), terminal.says("queues", "list")
    )
    assert (told["max_running"], told["max_depth"], told["dispatch_paused"]) == (2, 500, True)
    assert (told["depth"]["queued"], told["depth"]["held"], told["depth"]["running"]) == (3, 3, 0)
    (row,) = [line for line in listed.splitlines() if line.startswith("shelf ")]
    assert "stocktaking" in row
    assert all([(await job.get()).attempt == 0 for job in jobs])
    resumed = await terminal.says("queues", "resume", "shelf")
    assert "paused" in resumed
    assert "stocktaking" not in resumed
    assert [await job.result(WAIT) for job in jobs] == [1, 2, 3]
    missing = await terminal.run("queues", "get", "no.such.queue")
    assert (missing.code, "no such queue" in missing.errors) == (2, True)


async def is_held(client: Client, job_id: str) -> bool:
    return (await client.job(job_id).get()).hold_reason == "QUEUE_PAUSED"
