"""The scheduler as a process of its own: probes, health, and a stop that hands over."""

from __future__ import annotations

import asyncio
from pathlib import Path

import asyncpg
import grpc.aio
from grpc_health.v1 import health_pb2, health_pb2_grpc

from jobmesh.dev.ports import PortPool
from jobmesh.dev.probe import answers_ok
from tests.support.process import ServiceProcess
from tests.support.proxy import TcpProxy
from tests.support.wait import until

ROOM = 15.0


def scheduler(dsn: str, ports: PortPool, log: Path, port: int | None = None) -> ServiceProcess:
    environment = {
        "JOBMESH_POSTGRES_DSN": dsn,
        "JOBMESH_PORT": str(port or ports.take()),
        "JOBMESH_HTTP_PORT": str(ports.take()),
        "JOBMESH_DISPATCHERS": f"127.0.0.1:{ports.take()}",
    }
    return ServiceProcess("scheduler", environment, log)


async def leader(dsn: str) -> tuple[int, str | None]:
    connection = await asyncpg.connect(dsn, timeout=10, command_timeout=10)
    try:
        row = await connection.fetchrow("SELECT epoch, holder FROM jobmesh.leadership")
    finally:
        await connection.close(timeout=5)
    assert row is not None
    return row["epoch"], row["holder"]


async def metrics(address: str) -> list[str]:
    host, _, port = address.partition(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    writer.write(b"GET /metrics HTTP/1.1\r\nHost: here\r\nConnection: close\r\n\r\n")
    body = await asyncio.wait_for(reader.read(), ROOM)
    writer.close()
    await writer.wait_closed()
    return body.decode().splitlines()


async def test_it_leads_without_dispatchers_and_gives_up_at_the_end(
    database: str, ports: PortPool, tmp_path: Path
) -> None:
    async with scheduler(database, ports, tmp_path / "log") as process:
        await process.ready()

        async def led() -> bool:
            return (await leader(database))[1] is not None

        await until(led, ROOM, process.log.read_text)
        shown = await metrics(process.http_address)
        assert "jobmesh_scheduler_leader 1.0" in shown
        assert "jobmesh_scheduler_epoch 1.0" in shown
        assert await process.terminate() == 0
    assert await leader(database) == (1, None)


async def test_it_is_not_ready_while_its_database_is_away(
    database: str, ports: PortPool, tmp_path: Path
) -> None:
    host, port = database.rpartition("@")[2].split("/")[0].split(":")
    async with TcpProxy(host, int(port)) as proxy:
        dsn = database.replace(f"{host}:{port}", proxy.address)
        async with scheduler(dsn, ports, tmp_path / "log") as process:
            await process.ready()
            proxy.cut()

            async def refused() -> bool:
                return not await answers_ok(process.http_address, "/readyz")

            await until(refused, ROOM, process.log.read_text)
            assert await answers_ok(process.http_address, "/livez")
            proxy.restore()
            await process.ready()


async def test_it_says_by_grpc_that_it_serves(
    database: str, ports: PortPool, tmp_path: Path
) -> None:
    port = ports.take()
    async with scheduler(database, ports, tmp_path / "log", port) as process:
        await process.ready()
        async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
            stub = health_pb2_grpc.HealthStub(channel)  # type: ignore[no-untyped-call]
            answer = await stub.Check(
                health_pb2.HealthCheckRequest(), timeout=10, wait_for_ready=True
            )
    assert answer.status == health_pb2.HealthCheckResponse.SERVING
