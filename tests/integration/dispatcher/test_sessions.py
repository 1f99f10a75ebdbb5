"""Sessions that move between dispatchers, end, or are compared with what their runners say."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from urllib.parse import urlsplit, urlunsplit
from uuid import UUID

import pytest

from jobmesh.errors import SessionEnded, Unavailable
from jobmesh_dispatcher.database import Database
from jobmesh_dispatcher.queue_token import queue_token
from jobmesh_dispatcher.sql import load
from jobmesh_dispatcher.store.claim import claim
from tests.support import decisions as d
from tests.support.dispatchers import dispatcher, hello
from tests.support.proxy import TcpProxy
from tests.support.wait import until

LONG_AGO = "UPDATE jobmesh.jobs_live SET claim_time = claim_time - interval '1 hour'"


@pytest.fixture
async def db(database: str) -> AsyncIterator[Database]:
    async with d.opened(database) as opened:
        await d.make_queue(opened)
        yield opened


async def test_what_a_runner_lacks_is_queued_again_when_it_attaches(db: Database) -> None:
    lacking, held = await d.store_one(db), await d.store_one(db)
    async with dispatcher(db) as first, dispatcher(db) as second:
        attachment = await first.sessions.attach(hello())
        leases = d.leases(await d.claim_all(db, [lacking, held], attachment.seat()))
        known = [lease for lease in leases if lease.job_id == held]
        moved = await second.sessions.attach(
            hello(session_id=str(attachment.session_id), held=known)
        )
        assert set(moved.leases) == {held}
    assert [(await d.job(db, j))["state"] for j in (lacking, held)] == ["QUEUED", "RUNNING"]
    assert lacking in await d.awake(db)


async def test_a_claim_whose_answer_was_lost_is_taken_back(db: Database) -> None:
    job_id = await d.store_one(db)
    async with dispatcher(db) as one:
        attachment = await one.sessions.attach(hello())
        await d.claim_all(db, [job_id], attachment.seat())
        await one.sessions.repeat()
        assert (await d.job(db, job_id))["state"] == "RUNNING"  # its answer may be on the way
        await db.fetch(LONG_AGO)
        await one.sessions.repeat()
    assert (await d.job(db, job_id))["state"] == "QUEUED"


async def test_a_runner_is_told_of_a_claim_that_was_ended_without_it(db: Database) -> None:
    ended, going_on = await d.store_one(db), await d.store_one(db)
    async with dispatcher(db) as one:
        attachment = await one.sessions.attach(hello())
        for lease in d.leases(await d.claim_all(db, [ended, going_on], attachment.seat())):
            attachment.hold(lease)
        await one.sessions.repeat()
        assert attachment.leases.keys() == {ended, going_on}
        await db.fetch("DELETE FROM jobmesh.jobs_live WHERE job_id = $1", ended)
        one.sessions.tell_cancelled()
        await one.sessions.repeat()
        assert attachment.leases.keys() == {going_on}
        attachment.close()
        (told,) = [response async for response in attachment.outbound()]
        assert [lease.job_id for lease in told.lost.leases] == [str(ended)]


async def test_a_dispatcher_that_was_frozen_takes_nothing_from_a_session_that_moved(
    db: Database,
) -> None:
    job_id = await d.store_one(db)
    async with dispatcher(db) as frozen, dispatcher(db) as other:
        old = await frozen.sessions.attach(hello())
        new = await other.sessions.attach(hello(session_id=str(old.session_id)))
        claimed = await d.claim_all(db, [job_id], new.seat())
        assert len(claimed.rows) == 1
        await db.fetch(LONG_AGO)
        await frozen.sessions.repeat()  # it has not heard yet that the stream is over
    assert (await d.job(db, job_id))["state"] == "RUNNING"


async def test_an_attachment_that_was_overtaken_takes_nothing_back(db: Database) -> None:
    job_id = await d.store_one(db)
    async with dispatcher(db) as slow:
        first = hello()
        async with db.transaction() as connection:
            await connection.execute("LOCK TABLE jobmesh.jobs_live IN ACCESS EXCLUSIVE MODE")
            attaching = asyncio.create_task(slow.sessions.attach(first))
            await d.blocked(db)  # its session is written, and not compared yet
            seat = replace(await d.attach(db), session_id=UUID(first.session_id))
            await connection.fetch(
                load("upsert_session"),
                *(seat.session_id, seat.attachment, "runner", "default", d.uid(), 4, ["t"], [], ""),
            )
            tokens = [queue_token("default", "default")]
            claimed = await claim(connection, [job_id], tokens, [seat])
            assert len(claimed.rows) == 1
        with pytest.raises(Unavailable):
            await attaching
        assert len(slow.roster) == 0
    assert (await d.job(db, job_id))["state"] == "RUNNING"


async def test_nobody_attaches_to_a_dispatcher_that_has_begun_to_drain(db: Database) -> None:
    async with dispatcher(db) as one:
        one.sessions.drain()
        with pytest.raises(Unavailable):
            await one.sessions.attach(hello())
        assert len(one.roster) == 0


async def test_a_session_that_has_ended_does_not_attach(db: Database) -> None:
    async with dispatcher(db) as one:
        attachment = await one.sessions.attach(hello())
        attachment.bye = True
        await one.sessions.end(attachment)
        with pytest.raises(SessionEnded):
            await one.sessions.attach(hello(session_id=str(attachment.session_id)))


async def test_a_stream_that_broke_ends_its_session_after_the_grace(db: Database) -> None:
    job_id = await d.store_one(db)
    async with dispatcher(db, grace_seconds=0.01) as one:
        attachment = await one.sessions.attach(hello())
        await d.claim_all(db, [job_id], attachment.seat())
        await one.sessions.end(attachment)

        async def requeued() -> bool:
            return bool((await d.job(db, job_id))["state"] == "QUEUED")

        await until(requeued, timeout=5)


async def test_an_outage_of_the_database_ends_no_session(database: str) -> None:
    address = urlsplit(database)
    async with TcpProxy("127.0.0.1", address.port or 0) as proxy, d.opened(database) as direct:
        host = f"{address.username}:{address.password}@127.0.0.1:{proxy.port}"
        await d.make_queue(direct)
        job_id = await d.store_one(direct)
        async with (
            d.opened(urlunsplit(address._replace(netloc=host))) as db,
            dispatcher(db, grace_seconds=0.05) as one,
        ):
            attachment = await one.sessions.attach(hello())
            await d.claim_all(db, [job_id], attachment.seat())
            proxy.cut()
            await one.sessions.end(attachment)  # the stream broke meanwhile
            await until(lambda: one.sessions.graces == 0, timeout=10)
            proxy.restore()
            await db.ping()
        # Its runner could attach nowhere. The leader gives it time from now on.
        assert (await d.job(direct, job_id))["state"] == "RUNNING"
