"""The embedded nats-server."""

from __future__ import annotations

import signal
from pathlib import Path

import nats
import pytest

from jobmesh.dev.errors import DevError
from jobmesh.dev.nats import EmbeddedNats, NatsConfig
from jobmesh.dev.ports import PortPool
from jobmesh.dev.probe import answers_ok


async def test_it_is_killed_and_comes_back(nats_server: EmbeddedNats) -> None:
    client = await nats.connect(nats_server.url)
    await client.jetstream().add_stream(name="KEPT", subjects=["kept"])
    await client.close()
    assert nats_server.child is not None
    nats_server.child.send(signal.SIGKILL)
    await nats_server.child.wait()
    await nats_server.start()
    client = await nats.connect(nats_server.url)
    try:
        assert [info.config.name for info in await client.jetstream().streams_info()] == ["KEPT"]
    finally:
        await client.close()


async def test_a_taken_port_is_told_with_the_log(nats_server: EmbeddedNats, tmp_path: Path) -> None:
    port = int(nats_server.url.rsplit(":", 1)[1])
    second = EmbeddedNats(NatsConfig(root=tmp_path, port=port))
    try:
        with pytest.raises(DevError, match="address already in use"):
            await second.start()
    finally:
        await second.stop()


async def test_its_monitor_answers_if_asked_for(ports: PortPool, tmp_path: Path) -> None:
    monitor = ports.take()
    server = EmbeddedNats(NatsConfig(root=tmp_path, port=ports.take(), monitor_port=monitor))
    await server.start()
    try:
        assert await answers_ok(f"127.0.0.1:{monitor}", "/healthz")
    finally:
        await server.stop()
    await server.stop()
