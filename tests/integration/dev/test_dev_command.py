"""`jobmesh dev` as a person meets it, with stand-ins for the services."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import asyncpg
import nats
import pytest

from jobmesh.dev.ports import PortPool
from jobmesh.dev.probe import answers_ok
from tests.support.leaks import command_of
from tests.support.mesh import REPOSITORY, START_TIMEOUT, DevMesh
from tests.support.wait import until

TINY = ("tests.support.tiny_dev",)
START = START_TIMEOUT


@pytest.fixture
async def dev(tmp_path: Path) -> AsyncIterator[DevMesh]:
    async with DevMesh(tmp_path, TINY) as mesh:
        yield mesh


def gone(pids: set[int]) -> bool:
    return all(command_of(pid) in ("gone", "a zombie") for pid in pids)


async def test_the_ready_file_tells_of_all_that_serves(dev: DevMesh) -> None:
    await dev.start("--gateways", "2", "--runners", "2")
    content = await dev.ready()
    names = ["dispatcher-1", "scheduler-1", "gateway-1", "gateway-2", "runner-1", "runner-2"]
    assert set(content) == {"gateway", "http", "postgres", "nats", "processes"}
    assert list(content["processes"]) == list(content["http"]) == names
    assert len(set(content["gateway"])) == 2
    for name in names:
        assert await answers_ok(content["http"][name], "/readyz")
        assert "tiny_service.py" in command_of(content["processes"][name])
    connection = await asyncpg.connect(content["postgres"], timeout=10)
    assert await connection.fetchval("SELECT to_regclass('jobs_live') IS NOT NULL")
    await connection.close()
    client = await nats.connect(content["nats"])
    await client.close()
    await until(lambda: "jobmesh is ready" in dev.said(), describe=dev.said)


async def test_every_service_gets_its_settings(dev: DevMesh) -> None:
    await dev.start("--app", "a.b:app", "--app", "c:app", "--dispatchers", "2")
    content = await dev.ready()
    dispatcher, gateway, scheduler, runner = (
        json.loads((dev.data / "logs" / f"{name}-1.log").read_text().splitlines()[0])
        for name in ("dispatcher", "gateway", "scheduler", "runner")
    )
    assert dispatcher["JOBMESH_POSTGRES_DSN"] == content["postgres"]
    assert dispatcher["JOBMESH_NATS_URL"] == gateway["JOBMESH_NATS_URL"] == content["nats"]
    assert "JOBMESH_POSTGRES_DSN" not in gateway
    assert f"127.0.0.1:{gateway['JOBMESH_PORT']}" == content["gateway"][0]
    assert len(gateway["JOBMESH_DISPATCHERS"].split(",")) == 2
    assert scheduler["JOBMESH_DISPATCHERS"] == gateway["JOBMESH_DISPATCHERS"]
    assert runner["JOBMESH_APP"] == "a.b:app,c:app"
    assert runner["JOBMESH_RUNNER_ID"] == "runner-1"
    assert not {"JOBMESH_POSTGRES_DSN", "JOBMESH_NATS_URL"} & set(runner)


async def test_a_killed_process_comes_back_at_its_address(dev: DevMesh) -> None:
    await dev.start()
    before = await dev.ready()
    os.kill(before["processes"]["runner-1"], signal.SIGKILL)
    await until(lambda: dev.content()["processes"]["runner-1"] != before["processes"]["runner-1"])
    after = dev.content()
    assert after["http"] == before["http"]
    assert await answers_ok(after["http"]["runner-1"], "/readyz")
    await until(lambda: "runner-1 (process" in dev.said(), describe=dev.said)
    assert "ended with SIGKILL" in dev.said()


async def test_killed_servers_come_back_with_their_data(dev: DevMesh) -> None:
    await dev.start()
    content = await dev.ready()
    connection = await asyncpg.connect(content["postgres"], timeout=10)
    await connection.execute("CREATE TABLE kept AS SELECT 1 AS n")
    connection.terminate()
    killed = dev.server_pids()
    for pid in killed:
        os.kill(pid, signal.SIGKILL)

    async def answers() -> bool:
        try:
            connection = await asyncpg.connect(content["postgres"], timeout=2)
        except (OSError, asyncpg.exceptions.PostgresError):
            return False
        found = await connection.fetchval("SELECT n FROM kept")
        await connection.close()
        return bool(found == 1)

    await until(answers, 30, dev.said)
    await until(lambda: len(dev.server_pids() - killed) == 2, 30, dev.said)


async def test_a_stop_leaves_nothing_but_data(dev: DevMesh) -> None:
    child = await dev.start()
    pids = set((await dev.ready())["processes"].values()) | dev.server_pids()
    assert await child.stop((signal.SIGINT, 20)) == 0
    assert gone(pids)
    assert not dev.ready_file.exists()
    assert not (dev.data / "ready.json").exists()
    assert "jobmesh has stopped" in dev.said()
    assert "database system is shut down" in (dev.data / "logs/postgres.log").read_text()


async def test_services_stop_in_an_order_that_loses_nothing(dev: DevMesh) -> None:
    child = await dev.start()
    await dev.ready()
    await child.stop((signal.SIGTERM, 20))
    ended = []
    for name in ("runner", "gateway", "scheduler", "dispatcher"):
        last = json.loads((dev.data / f"logs/{name}-1.log").read_text().splitlines()[-1])
        ended.append((last["message"], last["at"]))
    assert [message for message, _ in ended] == ["stopped"] * 4
    assert sorted(at for _, at in ended) == [at for _, at in ended]


async def test_a_second_request_kills(dev: DevMesh) -> None:
    child = await dev.start(TINY_STUBBORN="runner")
    pids = set((await dev.ready())["processes"].values()) | dev.server_pids()
    child.send(signal.SIGINT)
    await until(lambda: "stopping" in dev.said())
    assert not gone(pids)
    child.send(signal.SIGINT)
    assert await asyncio.wait_for(child.wait(), 15) == 0
    assert gone(pids)


async def test_nothing_outlives_a_killed_supervisor_and_it_starts_again(dev: DevMesh) -> None:
    child = await dev.start()
    pids = set((await dev.ready())["processes"].values()) | dev.server_pids()
    await until(lambda: "jobmesh is ready" in dev.said(), describe=dev.said)
    child.send(signal.SIGKILL)
    await child.wait()
    await dev.start()  # at once, while PostgreSQL may still be shutting down
    await until(lambda: gone(pids), 20)
    await until(lambda: dev.said().count("jobmesh is ready") == 2, START, dev.said)
    assert await answers_ok((await dev.ready())["http"]["gateway-1"], "/readyz")


async def test_a_stop_while_it_starts_is_a_clean_one(dev: DevMesh) -> None:
    child = await dev.start()
    await until(lambda: (dev.data / "lock").exists() and "starting" in dev.said(), START)
    assert await child.stop((signal.SIGTERM, 20)) == 0
    assert gone(dev.server_pids())
    assert not dev.ready_file.exists()


async def test_a_service_that_cannot_start_is_shown_and_all_is_stopped(dev: DevMesh) -> None:
    child = await dev.start(TINY_FAIL="runner")
    assert await asyncio.wait_for(child.wait(), START) == 2
    assert "runner-1 ended with code 1" in dev.said()
    assert "no such app" in dev.said()
    assert gone(dev.server_pids())


async def test_a_database_that_cannot_be_migrated_is_told(dev: DevMesh) -> None:
    child = await dev.start()
    connection = await asyncpg.connect((await dev.ready())["postgres"], timeout=10)
    await connection.execute("DROP TABLE jobmesh_migrations")  # all is applied, none recorded
    await connection.close()
    await child.stop((signal.SIGTERM, 20))
    child = await dev.start()
    assert await asyncio.wait_for(child.wait(), START) == 2
    assert "jobmesh dev: the database cannot be migrated" in dev.said()
    assert gone(dev.server_pids())


async def test_a_taken_port_is_told_before_anything_starts(dev: DevMesh, ports: PortPool) -> None:
    port = ports.take()
    with socket.socket() as stranger:
        stranger.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        stranger.bind(("127.0.0.1", port))
        stranger.listen()
        child = await dev.start(port=port)
        assert await asyncio.wait_for(child.wait(), START) == 2
    assert f"port {port} of 127.0.0.1 is taken" in dev.said()
    assert not (dev.data / "postgres").exists()


async def test_a_second_one_on_the_same_data_is_refused(dev: DevMesh, tmp_path: Path) -> None:
    await dev.start()
    content = await dev.ready()
    (tmp_path / "second").mkdir()
    second = DevMesh(tmp_path / "second", TINY)
    second.data = dev.data
    child = await second.start()
    assert await asyncio.wait_for(child.wait(), START) == 2
    assert "already runs on" in second.said()
    assert dev.content() == content


async def test_it_runs_detached_until_stopped(dev: DevMesh) -> None:
    child = await dev.start("--detach")
    try:
        assert await asyncio.wait_for(child.wait(), START) == 0, dev.said()
        assert "jobmesh dev stop" in dev.said()
        pids = set(dev.content()["processes"].values()) | dev.server_pids()
        assert not gone(pids)
    finally:
        stop = await dev_stop(dev.data)
    assert stop.strip() == "stopped"
    assert gone(pids)
    assert not dev.ready_file.exists()


async def dev_stop(data: Path) -> str:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "tests.support.tiny_dev", "stop", "--data", str(data)),
        cwd=REPOSITORY,
        stdout=asyncio.subprocess.PIPE,
    )
    output, _ = await asyncio.wait_for(process.communicate(), START)
    return output.decode()
