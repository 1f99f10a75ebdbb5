"""The fixtures every other test stands on."""

from __future__ import annotations

import asyncpg
import nats

from jobmesh.dev.nats import EmbeddedNats


async def test_database_is_fresh_and_writable(database: str) -> None:
    connection = await asyncpg.connect(database)
    try:
        await connection.execute("CREATE TABLE only_here (n int)")
        await connection.execute("INSERT INTO only_here VALUES (1)")
        assert await connection.fetchval("SELECT count(*) FROM only_here") == 1
    finally:
        await connection.close()


async def test_databases_do_not_see_each_other(database: str) -> None:
    connection = await asyncpg.connect(database)
    try:
        assert await connection.fetchval("SELECT to_regclass('only_here')") is None
        await connection.execute("CREATE TABLE only_here (n int)")
    finally:
        await connection.close()


async def test_jetstream_is_empty_and_works(nats_url: str) -> None:
    client = await nats.connect(nats_url)
    try:
        stream = client.jetstream()
        assert await stream.streams_info() == []
        await stream.add_stream(name="JOBMESH_JOBS", subjects=["jm.job.>"])
        assert (await stream.publish("jm.job.a.4", b"x")).seq == 1
    finally:
        await client.close()


async def test_nats_keeps_its_store_over_a_restart(nats_server: EmbeddedNats) -> None:
    client = await nats.connect(nats_server.url)
    await client.jetstream().add_stream(name="JOBMESH_JOBS", subjects=["jm.job.>"])
    await client.jetstream().publish("jm.job.a.4", b"x")
    await client.close()
    url = nats_server.url
    await nats_server.stop()
    await nats_server.start()
    assert nats_server.url == url
    client = await nats.connect(url)
    try:
        assert (await client.jetstream().stream_info("JOBMESH_JOBS")).state.messages == 1
    finally:
        await client.close()
