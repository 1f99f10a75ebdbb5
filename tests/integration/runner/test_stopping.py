"""The end of a runner: nobody suffers from it."""

from __future__ import annotations

import asyncio
import os
import signal

import pytest

from jobmesh.dev.ports import PortPool
from tests.integration.runner.conftest import Start
from tests.integration.runner.peer import Link, Peer, Rules, job, lease_of, result_of
from tests.support.process import ServiceProcess
from tests.support.wait import until


def now() -> float:
    return asyncio.get_running_loop().time()


async def begin(peer: Peer, process: ServiceProcess) -> Link:
    await process.start()
    return await peer.link()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_idle_it_takes_leave_at_once(
    peer: Peer, runner: Start, number: signal.Signals
) -> None:
    process = runner(peer)
    link = await begin(peer, process)
    await process.ready()
    asked = now()
    os.kill(process.pid, number)
    assert process.child is not None
    assert await asyncio.wait_for(process.child.wait(), 10) == 0
    assert now() - asked < 3
    assert link.said_bye
    assert link.all("capacity")[-1].draining


async def test_what_runs_is_finished_and_what_waits_is_given_back_at_once(
    peer: Peer, runner: Start
) -> None:
    process = runner(peer, slots=2, drain_grace_seconds=20)
    link = await begin(peer, process)
    runs = [job("wait", seconds=1.5), job("wait.sync", seconds=1.5)]
    waits = [job("add", a=n) for n in range(20)]
    link.assign(*runs, *waits)
    await until(lambda: len(link.started) == 2)
    asked = now()
    ending = asyncio.create_task(process.terminate())
    for one in waits:
        report = await link.report_of(one, 1.0)
        assert report.WhichOneof("outcome") == "interrupted"
    assert now() - asked < 1.0
    late = job("add", a=1)
    link.assign(late)
    assert (await link.report_of(late)).WhichOneof("outcome") == "interrupted"
    assert [result_of(await link.report_of(one)) for one in runs] == ["waited"] * 2
    assert await ending == 0
    assert link.said_bye


async def test_what_does_not_end_within_the_grace_is_stopped_and_given_back(
    peer: Peer, runner: Start
) -> None:
    process = runner(peer, slots=6, drain_grace_seconds=2)
    link = await begin(peer, process)
    stops = [job("wait"), job("wait.sync"), job("clean.up")]
    stays = [job("stubborn"), job("stubborn.sync")]
    returns = job("finish.anyway")
    link.assign(*stops, *stays, returns)
    await until(lambda: len(link.started) == 6)
    asked = now()
    assert await process.terminate() == 0
    assert 1.5 < now() - asked < 5
    for one in (*stops, *stays):
        assert (await link.report_of(one)).WhichOneof("outcome") == "interrupted"
    assert result_of(await link.report_of(returns)) == "done all the same"
    assert [c.checkpoint.data for c in link.checkpoints] == [b'{"cleaned":true}']
    assert link.said_bye


async def test_it_waits_for_its_last_reports_to_be_recorded(peer: Peer, runner: Start) -> None:
    peer.rules = Rules(acknowledges=False)
    process = runner(peer)
    link = await begin(peer, process)
    link.assign(one := job("add", a=1))
    report = await link.report_of(one)
    ending = asyncio.create_task(process.terminate())
    await until(lambda: link.all("capacity"))
    assert not link.said_bye
    link.acknowledge([report])
    assert await ending == 0
    assert link.said_bye


async def test_it_may_change_dispatchers_while_it_drains(peer: Peer, runner: Start) -> None:
    process = runner(peer, slots=2, drain_grace_seconds=20)
    link = await begin(peer, process)
    link.assign(runs := job("wait", seconds=2.0))
    await until(lambda: link.started)
    ending = asyncio.create_task(process.terminate())
    await until(lambda: link.all("capacity"))
    link.end(RuntimeError("gone"))
    second = await peer.link(2)
    assert second.hello.draining
    assert list(second.hello.held) == [lease_of(runs)]
    assert result_of(await second.report_of(runs)) == "waited"
    assert await ending == 0
    assert second.said_bye


async def test_a_second_signal_ends_it_at_once(peer: Peer, runner: Start) -> None:
    process = runner(peer, drain_grace_seconds=20)
    link = await begin(peer, process)
    link.assign(job("wait"))
    await until(lambda: link.started)
    os.kill(process.pid, signal.SIGTERM)
    await until(lambda: link.all("capacity"))
    os.kill(process.pid, signal.SIGTERM)
    assert process.child is not None
    assert await asyncio.wait_for(process.child.wait(), 5) == 128 + signal.SIGTERM
    assert not link.said_bye


async def test_a_handler_that_blocks_its_loop_does_not_keep_the_runner(
    peer: Peer, runner: Start
) -> None:
    process = runner(peer, slots=1, drain_grace_seconds=1)
    link = await begin(peer, process)
    blocks, waits = job("block.loop", seconds=60.0), job("add", a=1)
    link.assign(blocks)
    await until(lambda: link.started)
    link.assign(waits)
    ending = asyncio.create_task(process.terminate())
    assert (await link.report_of(waits, 1.0)).WhichOneof("outcome") == "interrupted"
    assert (await link.report_of(blocks)).WhichOneof("outcome") == "interrupted"
    assert await ending == 0
    assert link.said_bye


async def test_a_handler_may_ask_for_the_end(peer: Peer, runner: Start) -> None:
    process = runner(peer, drain_grace_seconds=20)
    link = await begin(peer, process)
    link.assign(one := job("terminate.me"))
    assert result_of(await link.report_of(one)) == "finished"
    assert process.child is not None
    assert await asyncio.wait_for(process.child.wait(), 10) == 0


async def test_without_a_dispatcher_it_stops_all_the_same(peer: Peer, runner: Start) -> None:
    await peer.stop()
    process = runner(peer)
    await process.start()
    await until(lambda: b"can be reached" in process.log.read_bytes(), 20.0)
    assert await process.terminate() == 0


@pytest.mark.parametrize(
    ("app", "why"),
    [
        ("tests.integration.runner.nowhere:app", "cannot import tests.integration.runner.nowhere"),
        ("tests.integration.runner.handlers:none", "handlers has no none"),
    ],
)
async def test_an_app_that_cannot_be_served_is_said_and_ends_it(
    peer: Peer, runner: Start, app: str, why: str
) -> None:
    process = runner(peer, app=app)
    await process.start()
    assert process.child is not None
    assert await asyncio.wait_for(process.child.wait(), 20) == 1
    assert why in process.log.read_text()


async def test_a_port_that_is_taken_is_said_and_ends_it(
    peer: Peer, runner: Start, ports: PortPool
) -> None:
    process = runner(peer, port=peer.port)
    await process.start()
    assert process.child is not None
    assert await asyncio.wait_for(process.child.wait(), 20) == 1
    assert f"cannot listen on 127.0.0.1:{peer.port}" in process.log.read_text()
