"""Batches form by themselves, keep their limits, and answer every item once."""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobmesh.batching import Batcher, next_batch_length
from jobmesh.errors import Draining, Overloaded
from tests.support.wait import until


class Recorder:
    """A flush that waits to be let go, and remembers its batches."""

    def __init__(self, *, held: bool = False) -> None:
        self.batches: list[list[int]] = []
        self.gate = asyncio.Event()
        if not held:
            self.gate.set()

    async def flush(self, items: list[int]) -> Sequence[int | BaseException]:
        self.batches.append(items)
        await self.gate.wait()
        return [item * 10 for item in items]


async def reached(recorder: Recorder, batches: int) -> None:
    await until(lambda: len(recorder.batches) >= batches, 5, lambda: f"{batches} batches")


@given(
    st.lists(st.integers(0, 50), max_size=40),
    st.integers(1, 20),
    st.integers(1, 100),
)
def test_the_next_batch_is_the_longest_prefix_within_both_limits(
    sizes: list[int], max_items: int, max_bytes: int
) -> None:
    count = next_batch_length(sizes, max_items, max_bytes)

    def fits(length: int) -> bool:
        return length <= max_items and (length <= 1 or sum(sizes[:length]) <= max_bytes)

    assert fits(count)
    assert count == len(sizes) or not fits(count + 1)
    assert count >= min(1, len(sizes))


async def test_an_idle_batcher_sends_an_item_at_once() -> None:
    recorder = Recorder()
    batcher = Batcher(recorder.flush)
    await batcher.start()
    assert await batcher.submit(1) == 10
    assert await batcher.submit(2) == 20
    assert recorder.batches == [[1], [2]]
    await batcher.stop()


async def test_items_of_one_turn_share_a_flight() -> None:
    recorder = Recorder()
    batcher = Batcher(recorder.flush)
    await batcher.start()
    assert await asyncio.gather(*map(batcher.submit, range(5))) == [0, 10, 20, 30, 40]
    assert recorder.batches == [[0, 1, 2, 3, 4]]
    await batcher.stop()


async def test_what_arrives_during_a_flight_goes_into_the_next() -> None:
    recorder = Recorder(held=True)
    batcher = Batcher(recorder.flush, max_items=3)
    await batcher.start()
    async with asyncio.TaskGroup() as group:
        first = group.create_task(batcher.submit(0))
        await reached(recorder, 1)
        rest = [group.create_task(batcher.submit(n)) for n in range(1, 6)]
        await until(lambda: batcher.waiting == 5, 5, "five wait")
        assert (batcher.in_flight, len(recorder.batches)) == (1, 1)
        recorder.gate.set()
    assert recorder.batches == [[0], [1, 2, 3], [4, 5]]
    assert [task.result() for task in (first, *rest)] == [0, 10, 20, 30, 40, 50]
    await batcher.stop()


async def test_bytes_split_batches_and_an_item_over_the_limit_goes_alone() -> None:
    recorder = Recorder()
    batcher = Batcher(recorder.flush, max_bytes=10)
    await batcher.start()
    sizes = [4, 6, 1, 99, 5]
    await asyncio.gather(*(batcher.submit(n, size) for n, size in enumerate(sizes)))
    assert recorder.batches == [[0, 1], [2], [3], [4]]
    await batcher.stop()


async def test_flights_are_concurrent_up_to_their_number() -> None:
    recorder = Recorder(held=True)
    batcher = Batcher(recorder.flush, max_items=1, flights=2)
    await batcher.start()
    async with asyncio.TaskGroup() as group:
        for n in range(3):
            group.create_task(batcher.submit(n))
        await reached(recorder, 2)
        await until(lambda: batcher.waiting == 1, 5, "one waits")
        assert batcher.in_flight == 2
        recorder.gate.set()
    assert sorted(recorder.batches) == [[0], [1], [2]]
    await batcher.stop()


async def test_a_failed_flush_fails_its_items_and_no_others() -> None:
    async def flush(items: list[int]) -> Sequence[int]:
        if 13 in items:
            raise ValueError("unlucky")
        return items

    batcher = Batcher(flush, max_items=2)
    await batcher.start()
    results = await asyncio.gather(*map(batcher.submit, [1, 2, 13, 3, 4]), return_exceptions=True)
    assert [str(r) for r in results] == ["1", "2", "unlucky", "unlucky", "4"]
    await batcher.stop()


async def test_a_result_that_is_an_exception_is_raised_to_its_submitter() -> None:
    async def flush(items: list[int]) -> Sequence[int | BaseException]:
        return [KeyError(item) if item % 2 else item for item in items]

    batcher = Batcher(flush)
    await batcher.start()
    results = await asyncio.gather(*map(batcher.submit, range(4)), return_exceptions=True)
    assert [type(result) for result in results] == [int, KeyError, int, KeyError]
    await batcher.stop()


@pytest.mark.parametrize("results", [[1], [1, 2, 3], [StopIteration(), 2]])
async def test_a_flush_that_answers_wrongly_leaves_nobody_waiting(
    results: list[int | BaseException],
) -> None:
    async def flush(items: list[int]) -> Sequence[int | BaseException]:
        return results

    batcher = Batcher(flush)
    await batcher.start()
    answers = await asyncio.gather(batcher.submit(1), batcher.submit(2), return_exceptions=True)
    assert all(isinstance(answer, RuntimeError | TypeError) for answer in answers)
    await batcher.stop()


async def test_a_full_batcher_refuses_and_recovers() -> None:
    recorder = Recorder(held=True)
    batcher = Batcher(recorder.flush, max_items=1, max_waiting=2, name="writes")
    await batcher.start()
    async with asyncio.TaskGroup() as group:
        group.create_task(batcher.submit(0))
        await reached(recorder, 1)
        group.create_task(batcher.submit(1))
        group.create_task(batcher.submit(2))
        await until(lambda: batcher.waiting == 2, 5, "two wait")
        with pytest.raises(Overloaded, match="writes"):
            await batcher.submit(3)
        recorder.gate.set()
    assert await batcher.submit(4) == 40
    await batcher.stop()


async def test_a_cancelled_submitter_leaves_the_queue_and_nobody_else() -> None:
    recorder = Recorder(held=True)
    batcher = Batcher(recorder.flush, max_waiting=3)
    await batcher.start()
    async with asyncio.TaskGroup() as group:
        group.create_task(batcher.submit(0))
        await reached(recorder, 1)
        leaving = [group.create_task(batcher.submit(n)) for n in (1, 2)]
        staying = group.create_task(batcher.submit(3))
        await until(lambda: batcher.waiting == 3, 5, "three wait")
        for task in leaving:
            task.cancel()
        await until(lambda: batcher.waiting == 1, 5, "those who left are not counted")
        more = group.create_task(batcher.submit(4))
        await until(lambda: batcher.waiting == 2, 5, "their places are free")
        recorder.gate.set()
    assert recorder.batches == [[0], [3, 4]]
    assert (staying.result(), more.result()) == (30, 40)
    await batcher.stop()


async def test_a_submitter_that_leaves_in_flight_does_not_stop_it() -> None:
    recorder = Recorder(held=True)
    batcher = Batcher(recorder.flush)
    await batcher.start()
    leaving = asyncio.create_task(batcher.submit(1))
    staying = asyncio.create_task(batcher.submit(2))
    await reached(recorder, 1)
    leaving.cancel()
    recorder.gate.set()
    assert await staying == 20
    await asyncio.wait({leaving})
    assert leaving.cancelled()
    await batcher.stop()


async def test_stop_answers_what_was_accepted_and_refuses_more() -> None:
    recorder = Recorder(held=True)
    batcher = Batcher(recorder.flush, max_items=1)
    await batcher.start()
    accepted = [asyncio.create_task(batcher.submit(n)) for n in range(3)]
    await reached(recorder, 1)
    stopping = asyncio.create_task(batcher.stop())
    await asyncio.sleep(0)
    with pytest.raises(Draining):
        await batcher.submit(9)
    assert not stopping.done()
    recorder.gate.set()
    await stopping
    assert await asyncio.gather(*accepted) == [0, 10, 20]
    await batcher.stop()


async def test_a_stop_that_is_cut_short_tells_all_who_wait() -> None:
    recorder = Recorder(held=True)
    batcher = Batcher(recorder.flush, max_items=1)
    await batcher.start()
    waiting = [asyncio.create_task(batcher.submit(n)) for n in range(3)]
    await reached(recorder, 1)
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.01):
            await batcher.stop()
    results = await asyncio.gather(*waiting, return_exceptions=True)
    assert [type(result) for result in results] == [Draining] * 3
    assert (batcher.waiting, batcher.in_flight) == (0, 0)


async def test_a_batcher_never_started_stops_and_refuses() -> None:
    batcher = Batcher(Recorder().flush)
    with pytest.raises(Draining):
        await batcher.submit(1)
    await batcher.stop()
    await batcher.stop()


async def test_a_flight_does_not_inherit_the_context_of_a_submitter() -> None:
    caller: contextvars.ContextVar[str] = contextvars.ContextVar("caller", default="nobody")

    async def flush(items: list[int]) -> Sequence[str]:
        return [caller.get() for _ in items]

    batcher = Batcher(flush)
    await batcher.start()
    caller.set("somebody")
    assert await batcher.submit(1) == "nobody"
    await batcher.stop()


@given(
    arrivals=st.lists(st.tuples(st.integers(0, 9), st.booleans()), max_size=60),
    max_items=st.integers(1, 7),
    max_bytes=st.integers(1, 20),
    flights=st.integers(1, 3),
)
def test_every_item_is_answered_once_in_order_and_within_limits(
    arrivals: list[tuple[int, bool]], max_items: int, max_bytes: int, flights: int
) -> None:
    """Whatever the arrivals (size, and whether the loop turns before the next one)."""
    batches: list[list[int]] = []
    in_air = most_in_air = 0

    async def flush(items: list[int]) -> Sequence[int]:
        nonlocal in_air, most_in_air
        in_air += 1
        most_in_air = max(most_in_air, in_air)
        batches.append(items)
        await asyncio.sleep(0)
        in_air -= 1
        return [-item for item in items]

    async def play() -> list[int]:
        batcher = Batcher(flush, max_items=max_items, max_bytes=max_bytes, flights=flights)
        await batcher.start()
        tasks = []
        for number, (size, turn) in enumerate(arrivals):
            tasks.append(asyncio.create_task(batcher.submit(number, size)))
            if turn:
                await asyncio.sleep(0)
        results = await asyncio.gather(*tasks)
        await batcher.stop()
        return list(results)

    assert asyncio.run(play()) == [-number for number in range(len(arrivals))]
    assert [item for batch in batches for item in batch] == list(range(len(arrivals)))
    assert most_in_air <= flights
    for batch in batches:
        assert len(batch) <= max_items
        assert len(batch) == 1 or sum(arrivals[item][0] for item in batch) <= max_bytes
