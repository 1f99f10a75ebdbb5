"""One session over many streams: what the runner holds outlives each of them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import grpc
import pytest

from jobmesh.errors import DETAILS_KEY, to_status
from jobmesh.errors.kinds import JobmeshError
from jobmesh.v1.runner_service_pb2 import WorkResponse
from tests.integration.runner.conftest import Start
from tests.integration.runner.peer import (
    LEASE_LOST,
    Link,
    Peer,
    Rules,
    StatusEnd,
    job,
    lease_of,
    result_of,
)
from tests.support.proxy import TcpProxy
from tests.support.wait import until


@pytest.fixture
async def peers() -> AsyncIterator[tuple[Peer, Peer]]:
    async with Peer() as first, Peer() as second:
        yield first, second


async def attached(*peers: Peer) -> tuple[Peer, Link]:
    """The peer that has the runner, and its stream."""
    await until(lambda: any(peer.links for peer in peers), 20.0, "the runner attached")
    peer = next(peer for peer in peers if peer.links)
    return peer, peer.links[0]


def open_links(*peers: Peer) -> list[Link]:
    return [link for peer in peers for link in peer.links if not link.is_over]


def other(peers: tuple[Peer, Peer], peer: Peer) -> Peer:
    return peers[1] if peer is peers[0] else peers[0]


def session_ended() -> StatusEnd:
    error = JobmeshError(
        "the session was ended",
        code=grpc.StatusCode.FAILED_PRECONDITION,
        reason="SESSION_ENDED",
    )
    details = ((DETAILS_KEY, to_status(error).SerializeToString()),)
    return StatusEnd(grpc.StatusCode.FAILED_PRECONDITION, "the session was ended", details)


async def test_what_it_holds_outlives_a_broken_stream(peer: Peer, runner: Start) -> None:
    """Each claim is named, each report and checkpoint said again, until it was answered."""
    peer.rules = Rules(acknowledges=False, stores_checkpoints=False)
    await runner(peer, slots=3).start()
    first = await peer.link()
    answered, ended = job("add", a=1), job("add", a=2)
    runs, waits, stores = job("wait"), job("add", a=3), job("checkpoints", count=1)
    first.assign(answered, ended)
    await first.report_of(ended)
    first.acknowledge([await first.report_of(answered)])
    first.assign(runs, stores, job("wait"), waits)
    await until(lambda: len(first.started) >= 3 and first.checkpoints)

    first.end(StatusEnd(grpc.StatusCode.UNAVAILABLE, "killed"))
    second = await peer.link(2)

    held = {lease.job_id for lease in second.hello.held}
    assert {ended.job_id, runs.job_id, waits.job_id, stores.job_id} < held
    assert answered.job_id not in held
    assert len(held) == 5
    assert second.hello.session_id == first.hello.session_id
    again = await second.report_of(ended)
    assert again == await first.report_of(ended)
    await until(lambda: second.checkpoints and {runs.job_id, stores.job_id} <= set(second.started))
    second.stored(second.checkpoints[0])
    assert result_of(await second.report_of(stores)) == 1
    second.acknowledge([again, await second.report_of(stores)])
    assert result_of(await second.report_of(waits)) == 4


async def test_a_report_outlives_the_refusal_of_what_came_too_late(
    peer: Peer, runner: Start
) -> None:
    """A checkpoint, say, that is asked about again when the report is there, but not recorded."""
    peer.rules = Rules(acknowledges=False, stores_checkpoints=False)
    await runner(peer).start()
    first = await peer.link()
    first.assign(late := job("checkpoints", count=1, timeout=0.2))
    report = await first.report_of(late)
    first.stored(first.checkpoints[0], LEASE_LOST)
    first.assign(after := job("add", a=1))
    await first.report_of(after)
    first.end(StatusEnd(grpc.StatusCode.UNAVAILABLE, "killed"))
    second = await peer.link(2)
    assert lease_of(late) in second.hello.held
    assert await second.report_of(late) == report


async def test_a_runner_that_drains_while_it_is_sent_on_takes_its_leave(
    peers: tuple[Peer, Peer], runner: Start
) -> None:
    process = runner(*peers)
    await process.start()
    peer, first = await attached(*peers)
    peer.rules.welcomes = other(peers, peer).rules.welcomes = False
    first.send(WorkResponse(reconnect=WorkResponse().reconnect))
    await until(lambda: sum(len(p.links) for p in peers) == 2)
    ending = asyncio.create_task(process.terminate())
    peer.rules.welcomes = other(peers, peer).rules.welcomes = True
    assert await ending == 0
    (last,) = [link for p in peers for link in p.links if link.hello.draining]
    assert last.said_bye


async def test_a_stream_that_breaks_is_followed_at_once(peer: Peer, runner: Start) -> None:
    await runner(peer).start()
    first = await peer.link()
    begin = asyncio.get_running_loop().time()
    first.end(StatusEnd(grpc.StatusCode.UNAVAILABLE, "gone"))
    await peer.link(2)
    assert asyncio.get_running_loop().time() - begin < 1.0


async def test_nothing_is_taken_from_a_stream_once_its_successor_has_heard_hello(
    peers: tuple[Peer, Peer], runner: Start
) -> None:
    """One compares what `hello` names with its table: what the other still sends is not in it."""
    await runner(*peers).start()
    peer, first = await attached(*peers)
    peer.rules.welcomes = other(peers, peer).rules.welcomes = False
    first.send(WorkResponse(reconnect=WorkResponse().reconnect))
    await until(lambda: sum(len(p.links) for p in peers) == 2)
    late = job("add", a=1)
    first.assign(late)
    peer.rules.welcomes = other(peers, peer).rules.welcomes = True

    third = await _newest(peers, 3)
    third.assign(after := job("add", a=2))
    assert result_of(await third.report_of(after)) == 3
    assert late.job_id not in {lease.job_id for lease in third.hello.held}
    assert [r.job_id for p in peers for link in p.links for r in link.reports] == [after.job_id]


async def _newest(peers: tuple[Peer, Peer], number: int) -> Link:
    await until(lambda: sum(len(peer.links) for peer in peers) >= number, 20.0)
    return max(open_links(*peers), key=lambda link: link.opened_at)


@pytest.mark.parametrize("how", ["reconnect", "killed"])
async def test_it_moves_to_another_dispatcher_with_what_runs(
    peers: tuple[Peer, Peer], runner: Start, how: str
) -> None:
    await runner(*peers).start()
    peer, first = await attached(*peers)
    runs = job("wait", seconds=1.5)
    first.assign(runs)
    await until(lambda: first.started)

    if how == "reconnect":
        peer.rules.drains = True
        first.send(WorkResponse(reconnect=WorkResponse().reconnect))
    else:
        await peer.stop()
    second = await other(peers, peer).link()

    assert list(second.hello.held) == [lease_of(runs)]
    assert result_of(await second.report_of(runs)) == "waited"
    await until(lambda: first.is_over)


async def test_a_dispatcher_that_does_not_answer_is_left_but_not_hung_up_on(
    peers: tuple[Peer, Peer], runner: Start
) -> None:
    """It may be the database that is away: hanging up would end the session once it is back."""
    for peer in peers:
        peer.rules.lease = 3.0
    await runner(*peers).start()
    peer, first = await attached(*peers)
    runs = job("wait")
    first.assign(runs)
    await until(lambda: first.started)
    for one in peers:
        one.rules.welcomes = one.rules.pongs = False

    second = await _newest(peers, 2)
    assert first in open_links(*peers)
    assert list(second.hello.held) == [lease_of(runs)]
    for one in peers:
        one.rules.welcomes = one.rules.pongs = True
    await until(lambda: first.is_over and len(open_links(*peers)) == 1, 20.0)
    [last] = open_links(*peers)
    last.assign(after := job("add", a=1))
    assert result_of(await last.report_of(after)) == 2


async def test_an_ended_session_stops_its_handlers_and_another_begins(
    peer: Peer, runner: Start
) -> None:
    await runner(peer, slots=2).start()
    first = await peer.link()
    runs, thread, waits = job("clean.up"), job("wait.sync"), job("add", a=1)
    first.assign(runs, thread, waits)
    await until(lambda: len(first.started) == 2)
    for link in peer.links:  # it has attached anew, if the machine stood still
        link.end(session_ended())

    def of_another_session() -> list[Link]:
        return [link for link in peer.links if link.hello.session_id != first.hello.session_id]

    (second,) = await until(of_another_session, 20)
    assert second.hello.runner_id == first.hello.runner_id
    assert list(second.hello.held) == []
    # Both slots are free again: the handlers were told.
    second.assign(*(after := [job("wait", seconds=0.3) for _ in range(2)]))
    for one in after:
        assert result_of(await second.report_of(one)) == "waited"
    assert {report.job_id for report in second.reports} == {one.job_id for one in after}


async def test_an_ended_session_is_learnt_of_at_hello(peer: Peer, runner: Start) -> None:
    await runner(peer).start()
    first = await peer.link()
    first.assign(runs := job("wait"))
    await until(lambda: first.started)
    peer.rules.welcomes = False
    first.end(StatusEnd(grpc.StatusCode.UNAVAILABLE))
    second = await peer.link(2)
    assert list(second.hello.held) == [lease_of(runs)]
    peer.rules.welcomes = True
    second.end(session_ended())
    third = await peer.link(3)
    assert third.hello.session_id != first.hello.session_id
    assert list(third.hello.held) == []


async def test_a_dispatcher_may_come_later_than_its_runners(peer: Peer, runner: Start) -> None:
    await peer.stop()
    process = runner(peer)
    await process.start()
    await until(lambda: b"can be reached" in process.log.read_bytes(), 20.0)
    await peer.start()
    link = await peer.link()
    link.assign(one := job("add", a=1))
    assert result_of(await link.report_of(one)) == 2


async def test_a_link_that_is_cut_is_made_again(peer: Peer, runner: Start) -> None:
    async with TcpProxy("127.0.0.1", peer.port) as proxy:
        process = runner(peer, slots=2, dispatchers=proxy.address)
        await process.start()
        first = await peer.link()
        first.assign(runs := job("wait", seconds=1.0))
        await until(lambda: first.started)
        proxy.cut()
        await until(lambda: first.is_over)
        proxy.restore()
        second = await peer.link(2)
        assert result_of(await second.report_of(runs)) == "waited"
        await process.terminate()


async def test_runners_spread_over_dispatchers(peers: tuple[Peer, Peer], runner: Start) -> None:
    """A runner goes on to the next with each stream, so that none keeps them all."""
    await runner(*peers).start()
    await attached(*peers)
    for number in range(2, 6):
        newest = await _newest(peers, number - 1)
        newest.end(StatusEnd(grpc.StatusCode.UNAVAILABLE))
        await _newest(peers, number)
    assert min(len(peer.links) for peer in peers) >= 2
