"""One command runs the whole mesh."""

from __future__ import annotations

import asyncio
import json
import signal
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.support.leaks import command_of
from tests.support.mesh import REPOSITORY, DevMesh
from tests.support.process import clean_environment
from tests.support.wait import until

SAMPLES = ("--app", "jobmesh.dev.sample_app:app")


@pytest.fixture
async def mesh(tmp_path: Path) -> AsyncIterator[DevMesh]:
    async with DevMesh(tmp_path) as mesh:
        yield mesh


async def jobmesh(mesh: DevMesh, *arguments: str) -> tuple[int, str]:
    """Run the command line against the mesh; its exit code and output."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "jobmesh.cli.main", *arguments),
        cwd=REPOSITORY,
        env=clean_environment() | {"JOBMESH_ADDRESS": mesh.gateway},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    output, errors = await asyncio.wait_for(process.communicate(), 40)
    assert process.returncode is not None
    return process.returncode, output.decode() or errors.decode()


async def test_a_job_runs_from_the_command_line(mesh: DevMesh) -> None:
    await mesh.start(*SAMPLES)
    await mesh.ready()
    code, output = await jobmesh(mesh, "submit", "hello", '{"name": "Ada"}', "--watch")
    assert code == 0, output
    assert "Hello, Ada!" in output


async def test_every_service_comes_back_and_jobs_run_again(mesh: DevMesh) -> None:
    await mesh.start(*SAMPLES)
    content = await mesh.ready()
    before = {process: mesh.kill(process) for process in content["processes"]}
    for process, pid in before.items():
        await mesh.serves_again(process, pid)
    assert mesh.content()["http"] == content["http"]
    code, output = await jobmesh(mesh, "submit", "hello", "{}", "--watch")
    assert code == 0, output


async def test_a_running_job_is_given_time_at_the_stop(mesh: DevMesh) -> None:
    child = await mesh.start(*SAMPLES)
    pids = set((await mesh.ready())["processes"].values()) | mesh.server_pids()
    code, output = await jobmesh(mesh, "submit", "countdown", '{"seconds": 3}')
    assert code == 0, output
    job_id = output.strip()
    await until(lambda: is_running(mesh, job_id), 20)
    assert await child.stop((signal.SIGINT, 40)) == 0, mesh.said()
    assert all(command_of(pid) in ("gone", "a zombie") for pid in pids)
    await mesh.start(*SAMPLES)
    await mesh.ready()
    code, output = await jobmesh(mesh, "get", job_id, "--output", "json")
    assert code == 0
    assert "SUCCEEDED" in output
    assert int(json.loads(output)["attempt"]) == 1


async def is_running(mesh: DevMesh, job_id: str) -> bool:
    _, output = await jobmesh(mesh, "get", job_id)
    return "RUNNING" in output
