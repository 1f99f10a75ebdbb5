from __future__ import annotations

import asyncio
import threading

from jobmesh_runner.handoff import Handoff
from tests.support.wait import until


async def test_calls_of_each_thread_arrive_in_order_and_all() -> None:
    handoff = Handoff()
    arrived: list[tuple[int, int]] = []

    def send(number: int) -> None:
        for call in range(5000):
            handoff.call(arrived.append, (number, call))

    threads = [threading.Thread(target=send, args=(number,)) for number in range(4)]
    handoff.bind(asyncio.get_running_loop())
    for thread in threads:
        thread.start()
    await until(lambda: len(arrived) == 20_000, describe=lambda: len(arrived))
    for thread in threads:
        thread.join()
    for number in range(4):
        assert [call for n, call in arrived if n == number] == list(range(5000))


async def test_what_came_before_there_was_a_loop_is_not_lost() -> None:
    handoff = Handoff()
    arrived: list[int] = []
    handoff.call(arrived.append, 1)
    handoff.call(arrived.append, 2)
    handoff.bind(asyncio.get_running_loop())
    await until(lambda: arrived == [1, 2])


async def test_a_burst_settles_once() -> None:
    handoff = Handoff()
    settled: list[int] = []
    arrived: list[int] = []
    handoff.settled = lambda: settled.append(len(arrived))
    handoff.bind(asyncio.get_running_loop())
    await until(lambda: settled == [0])
    for number in range(100):
        handoff.call(arrived.append, number)
    await until(lambda: len(arrived) == 100)
    assert settled == [0, 100]


async def test_a_call_that_fails_keeps_nothing_from_the_next() -> None:
    handoff = Handoff()
    arrived: list[int] = []
    handoff.bind(asyncio.get_running_loop())
    handoff.call(lambda: 1 / 0)
    handoff.call(arrived.append, 1)
    await until(lambda: arrived == [1])


def test_a_call_after_the_end_of_the_loop_is_dropped() -> None:
    handoff = Handoff()
    loop = asyncio.new_event_loop()
    handoff.bind(loop)
    loop.run_until_complete(asyncio.sleep(0))
    loop.close()
    arrived: list[int] = []
    handoff.call(arrived.append, 1)
    assert arrived == []
